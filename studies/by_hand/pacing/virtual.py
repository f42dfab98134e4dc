"""Compares paced time with virtual time: the seconds of one trace of varying passes, in real time and computed.

Passes on two racks jitter and have slow spells. Each round has its own seed. The steps of a round run in real time, and
are then computed by the `VirtualClock`, which replays the communication behind the same drawn passes. Its coefficients
are calibrated on steady passes of the same strategies, timed in the same rounds, and on no step of a trace.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import autosync.cost
from autosync.baselines import BASELINES, different_strategies
from autosync.cost import Replay
from autosync.spec import ClusterSpec, ModelSpec, Pace, RuntimeRecord, Slow, Spread, Strategy, TimingProtocol
from studies.by_hand.pacing.pace_results import PaceResults
from studies.by_hand.pacing.turns import in_words, open_engine, realize_in, steady, table, turn, with_pace
from studies.by_hand.peers.links import cluster_of

__all__ = ["ASKED", "QUICK", "is_available", "measure", "tables"]

ASKED = {
    "cluster": "topologies/two_racks.yaml",
    "models": ["bert-mini", "vgg-mini", "ncf-mini"],
    "rounds": 6,
    "steps": 30,
    "warmup": 2,
    "pass_ms": 100.0,
    "strategies": 5,
}
QUICK = {"models": ["mlp"], "rounds": 1, "steps": 3, "warmup": 1, "pass_ms": 30.0, "strategies": 2}

STEADY, SPREAD, VIRTUAL, STEADY_STEPS = "steady", "spread", "virtual", 10
NEAR = 0.05


def is_available() -> bool:
    """Return whether this source can compute virtual steps."""
    return hasattr(autosync.cost, "VirtualClock")


def spread(milliseconds: float) -> Pace:
    """Return the pace of passes that jitter and take twice as long in a tenth of all steps, independently per node."""
    return Pace(0.0, milliseconds / 1e3, spread=Spread(0.1, Slow(0.1, 5, 2.0)))


def measure(kept: PaceResults, name: str) -> None:
    """Measure the missing rows on an emulated cluster called `name`."""
    asked = kept.asked
    with open_engine(name, cluster_of(asked["cluster"])) as engine:
        clusters = {
            session: with_pace(engine.cluster, pace(asked["pass_ms"]))
            for session, pace in ((STEADY, steady), (SPREAD, spread))
        }
        for model in asked["models"]:
            for session, cluster in clusters.items():
                loaded = engine.load(model, session, cluster)
            kept.note(model, faults={})
            different = different_strategies(BASELINES, loaded, engine.cluster)
            chosen, faults = dict(list(different.items())[: asked["strategies"]]), dict[str, str]()
            for number in range(asked["rounds"]):
                for baseline, strategy in chosen.items():
                    cell = {"model": model, "strategy": baseline, "round": number}
                    if baseline in faults or kept.has(session=SPREAD, **cell):
                        continue
                    fault = realize_in(engine, strategy, clusters, asked["warmup"], seed=number)
                    if fault is not None:
                        faults[baseline] = fault
                        continue
                    kept.add(session=STEADY, **cell, **turn(engine, STEADY, STEADY_STEPS))
                    kept.add(session=SPREAD, **cell, **turn(engine, SPREAD, asked["steps"]))
                    for session in clusters:
                        engine.forget(session)
            kept.note(model, faults=faults)
            _work_out(kept, loaded, clusters, chosen)


def _work_out(
    kept: PaceResults, model: ModelSpec, clusters: dict[str, ClusterSpec], chosen: dict[str, Strategy]
) -> None:
    """Add the virtual steps of each round to the paced steps."""
    from autosync.cost import VirtualClock  # type: ignore[attr-defined,unused-ignore]

    replay = Replay()
    replay.fit([_record(row, model, clusters[STEADY], chosen) for row in kept.rows(model=model.name, session=STEADY)])
    kept.note(model.name, coefficients=replay.coefficients.to_json())
    for row in list(kept.rows(model=model.name, session=SPREAD)):
        cell = {name: row[name] for name in ("model", "strategy", "round")}
        if not kept.has(session=VIRTUAL, **cell):
            first, last = row["first_step"], row["first_step"] + len(row["step_seconds"])
            clock = VirtualClock.of(model, clusters[SPREAD], chosen[row["strategy"]], replay.coefficients)
            computed = [float(seconds) for seconds in clock.step_seconds(row["round"], last)[first:last]]
            kept.add(session=VIRTUAL, load_average=row["load_average"], step_seconds=computed, **cell)


def _record(row: dict[str, Any], model: ModelSpec, cluster: ClusterSpec, chosen: dict[str, Strategy]) -> RuntimeRecord:
    seconds = tuple(row["step_seconds"])
    return RuntimeRecord(
        model=model,
        cluster=cluster,
        strategy=chosen[row["strategy"]],
        protocol=TimingProtocol(timed_steps=len(seconds)),
        outcome="ok",
        purpose="baseline",
        label=row["strategy"],
        run="virtual",
        seed=0,
        started_at=0.0,
        step_seconds=seconds,
    )


def tables(kept: PaceResults) -> Iterator[str]:
    """Yield the tables of the kept rows."""
    for model, cell in kept.cells.items():
        yield f"{model}: seconds of a trace of {kept.asked['steps']} steps"
        yield table(
            ("strategy", "paced (s)", "virtual (s)", "virtual / paced [95 %]", "within 5 %"),
            list(_rows(kept, model)),
        )
        for name, fault in cell["faults"].items():
            yield f"`{name}` could not run: {fault}"


def _rows(kept: PaceResults, model: str) -> Iterator[tuple[str, ...]]:
    for strategy in dict.fromkeys(row["strategy"] for row in kept.rows(model=model, session=SPREAD)):
        paced, virtual = (
            {
                row["round"]: sum(row["step_seconds"])
                for row in kept.rows(model=model, strategy=strategy, session=session)
            }
            for session in (SPREAD, VIRTUAL)
        )
        ratios = [virtual[number] / paced[number] for number in sorted(paced.keys() & virtual)]
        near = ratios and abs(statistics.median(ratios) - 1) <= NEAR
        yield (
            f"`{strategy}`",
            in_words(paced.values(), 1, 2),
            in_words(virtual.values(), 1, 2),
            in_words(ratios, 1, 3),
            "yes" if near else "no",
        )

"""Compares paced and real passes on two racks: the differences between baselines, and the overlap in a step.

Three sessions take turns: `real` passes, which four workers compute on this machine's processors; `paced` passes; and
`bare` steps, which consist of communication with almost no passes. The hidden part of a step is pass + bare - step. The
time of a real pass is computed from the profile, with all replicas shared ideally among the processors. The hidden part
of a real step is therefore at least the given value, which is negative if computing and sending slow each other down.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from autosync.baselines import BASELINES, different_strategies
from studies.by_hand.pacing.pace_results import PaceResults, Row
from studies.by_hand.pacing.turns import (
    REAL,
    by_round,
    in_words,
    median,
    open_engine,
    realize_in,
    steady,
    table,
    turn,
    with_pace,
)
from studies.by_hand.peers.engine import EngineDriver
from studies.by_hand.peers.links import cluster_of

__all__ = ["ASKED", "QUICK", "measure", "tables"]

ASKED = {
    "cluster": "topologies/two_racks.yaml",
    "models": ["bert-mini", "vgg-mini", "ncf-mini"],
    "rounds": 6,
    "steps": 10,
    "warmup": 2,
    "pass_ms": 100.0,
    "strategies": len(BASELINES),
}
QUICK = {"models": ["mlp"], "rounds": 1, "steps": 2, "warmup": 1, "strategies": 2}

PACED, BARE, BARE_MS = "paced", "bare", 0.1
SESSIONS = (REAL, PACED, BARE)


def measure(kept: PaceResults, name: str) -> None:
    """Measure the missing rows on an emulated cluster called `name`."""
    asked = kept.asked
    with open_engine(name, cluster_of(asked["cluster"])) as engine:
        paces = {PACED: steady(asked["pass_ms"]), BARE: steady(BARE_MS)}
        for model in asked["models"]:
            engine.load(model, REAL)
            for session, pace in paces.items():
                loaded = engine.load(model, session, with_pace(engine.cluster, pace))
            assert loaded.profile is not None
            kept.note(
                model,
                pass_seconds=loaded.profile.forward_seconds + loaded.profile.backward_seconds,
                replicas=len(engine.cluster.replica_devices),
                processors=len(os.sched_getaffinity(0)),
            )
            different = different_strategies(BASELINES, loaded, engine.cluster)
            chosen = dict(list(different.items())[: asked["strategies"]])
            faults: dict[str, str] = {}
            for number in range(asked["rounds"]):
                for baseline, strategy in chosen.items():
                    cell = {"model": model, "strategy": baseline, "round": number}
                    if baseline in faults or all(kept.has(session=session, **cell) for session in SESSIONS):
                        continue
                    fault = realize_in(engine, strategy, SESSIONS, asked["warmup"])
                    if fault is None:
                        _turns(engine, kept, cell)
                    else:
                        faults[baseline] = fault
                    for session in SESSIONS:
                        engine.forget(session)
            kept.note(model, faults=faults)


def _turns(engine: EngineDriver, kept: PaceResults, cell: Row) -> None:
    for session in SESSIONS if cell["round"] % 2 == 0 else reversed(SESSIONS):
        if not kept.has(session=session, **cell):
            kept.add(session=session, **cell, **turn(engine, session, kept.asked["steps"]))


def tables(kept: PaceResults) -> Iterator[str]:
    """Yield the tables of the kept rows, with separate columns for real and paced steps."""
    for model, cell in kept.cells.items():
        passes = {
            REAL: cell["pass_seconds"] * cell["replicas"] / min(cell["processors"], cell["replicas"]),
            PACED: kept.asked["pass_ms"] / 1e3,
        }
        if not kept.has(model=model):
            continue
        yield f"{model}, a pass takes {1e3 * passes[REAL]:.0f} ms real, {1e3 * passes[PACED]:g} ms paced"
        shown = {session: _of_session(kept, model, session, passes[session]) for session in passes}
        yield table(
            ("strategy", *(f"{session} {head}" for session in passes for head in HEADS)),
            [
                (f"`{name}`", *(text for session in passes for text in shown[session].get(name, ["-"] * len(HEADS))))
                for name in dict.fromkeys(row["strategy"] for row in kept.rows(model=model))
            ],
        )
        for session in passes:
            yield f"- {session}: {_spread(kept, model, session)}"
        for name, fault in cell.get("faults", {}).items():
            yield f"- `{name}` could not run: {fault}"


HEADS = ("step (ms)", "hidden (% of step)", "processors busy (%)")


def _of_session(kept: PaceResults, model: str, session: str, pass_seconds: float) -> dict[str, list[str]]:
    shown = {}
    for name in dict.fromkeys(row["strategy"] for row in kept.rows(model=model, session=session)):
        rows = list(kept.rows(model=model, session=session, strategy=name))
        steps, bare = median(rows), median(kept.rows(model=model, session=BARE, strategy=name))
        hidden = [
            (pass_seconds + bare[number] - steps[number]) / steps[number] for number in sorted(steps.keys() & bare)
        ]
        shown[name] = [
            in_words(steps.values(), 1e3, 0),
            in_words(hidden, 100, 0),
            in_words(by_round(rows, lambda row: row["busy_share"]).values(), 100, 0),
        ]
    return shown


def _spread(kept: PaceResults, model: str, session: str) -> str:
    """Describe the differences between baselines: times of other baselines relative to the best, round by round."""
    names = dict.fromkeys(row["strategy"] for row in kept.rows(model=model, session=session))
    by_strategy = {name: median(kept.rows(model=model, session=session, strategy=name)) for name in names}
    if not by_strategy:
        return "no step was timed"
    ordered = sorted(by_strategy, key=lambda name: statistics.median(by_strategy[name].values()))
    best, *slower = (by_strategy[name] for name in ordered)
    second, middle, worst = (
        in_words((strategy[number] / best[number] for number in sorted(strategy.keys() & best)), 1, 2)
        for strategy in ((slower or [best])[0], by_strategy[ordered[len(ordered) // 2]], by_strategy[ordered[-1]])
    )
    return f"best `{ordered[0]}`; the second takes {second} times as long, the middle one {middle}, the worst {worst}"

"""What paced passes show that real ones hide, on two racks: how far baselines are apart, what of a step overlaps.

Three sessions take turns: `real` passes, which four workers compute on this machine's processors; `paced` ones; and
`bare`, what is sent alone, with passes of next to nothing. What is hidden of a step is pass + bare - step. A real pass
of all replicas takes what the profile says, shared among the processors as well as could be, so that what is hidden of
a real step is at least what stands there; it is below zero where computing and sending are in each other's way.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from autosync.baselines import BASELINES, different_strategies
from tests.by_hand.pacing.kept import Kept, Row
from tests.by_hand.pacing.turns import (
    REAL,
    by_round,
    engine_over,
    in_words,
    median,
    paced_like,
    realized,
    steady,
    table,
    turn,
)
from tests.by_hand.peers.engine import Engine
from tests.by_hand.peers.links import cluster_of

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


def measure(kept: Kept, name: str) -> None:
    asked = kept.asked
    with engine_over(name, cluster_of(asked["cluster"])) as engine:
        paces = {PACED: steady(asked["pass_ms"]), BARE: steady(BARE_MS)}
        for model in asked["models"]:
            engine.load(model, REAL)
            for session, pace in paces.items():
                loaded = engine.load(model, session, paced_like(engine.cluster, pace))
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
                    if baseline in faults or all(kept.has(session=each, **cell) for each in SESSIONS):
                        continue
                    fault = realized(engine, strategy, SESSIONS, asked["warmup"])
                    if fault is None:
                        _turns(engine, kept, cell)
                    else:
                        faults[baseline] = fault
                    for session in SESSIONS:
                        engine.forget(session)
            kept.note(model, faults=faults)


def _turns(engine: Engine, kept: Kept, cell: Row) -> None:
    for session in SESSIONS if cell["round"] % 2 == 0 else reversed(SESSIONS):
        if not kept.has(session=session, **cell):
            kept.add(session=session, **cell, **turn(engine, session, kept.asked["steps"]))


def tables(kept: Kept) -> Iterator[str]:
    """Real and paced stand beside each other; no figure is of both."""
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
            ("strategy", *(f"{session} {each}" for session in passes for each in HEADS)),
            [
                (f"`{name}`", *(each for session in passes for each in shown[session].get(name, ["-"] * len(HEADS))))
                for name in dict.fromkeys(row["strategy"] for row in kept.rows(model=model))
            ],
        )
        for session in passes:
            yield f"- {session}: {_spread(kept, model, session)}"
        for name, fault in cell.get("faults", {}).items():
            yield f"- `{name}` could not run: {fault}"


HEADS = ("step (ms)", "hidden (% of step)", "processors busy (%)")


def _of_session(kept: Kept, model: str, session: str, pass_seconds: float) -> dict[str, list[str]]:
    shown = {}
    for name in dict.fromkeys(row["strategy"] for row in kept.rows(model=model, session=session)):
        rows = list(kept.rows(model=model, session=session, strategy=name))
        steps, bare = median(rows), median(kept.rows(model=model, session=BARE, strategy=name))
        hidden = [(pass_seconds + bare[each] - steps[each]) / steps[each] for each in sorted(steps.keys() & bare)]
        shown[name] = [
            in_words(steps.values(), 1e3, 0),
            in_words(hidden, 100, 0),
            in_words(by_round(rows, lambda row: row["busy_share"]).values(), 100, 0),
        ]
    return shown


def _spread(kept: Kept, model: str, session: str) -> str:
    """How far baselines are apart: the best one and the worst one over all rounds, their quotient round by round."""
    names = dict.fromkeys(row["strategy"] for row in kept.rows(model=model, session=session))
    found = {name: median(kept.rows(model=model, session=session, strategy=name)) for name in names}
    if not found:
        return "nothing was timed"
    ordered = sorted(found, key=lambda name: statistics.median(found[name].values()))
    best, *others = (found[name] for name in ordered)
    second, middle, worst = (
        in_words((each[number] / best[number] for number in sorted(each.keys() & best)), 1, 2)
        for each in ((others or [best])[0], found[ordered[len(ordered) // 2]], found[ordered[-1]])
    )
    return f"best `{ordered[0]}`; the second takes {second} times as long, the middle one {middle}, the worst {worst}"

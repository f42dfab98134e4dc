"""Pace alone: passes of 150 ms on four nodes with tiny messages. Measures lateness, step time and processor cost.

The model has kilobytes of gradients, which one server sums over links of 1 Gbit/s. In a second variant, a single
replica runs with the server on its own device, and no message is sent. The paced step alternates with the same step
with computed passes (`real`, a fraction of a millisecond), which consists of the exchange and the client. The real step
is timed back to back, and after a pause as long as a pass (`rested`). After the pause, caches are as cold as after a
paced pass. The processor time of a paced step beyond that of a rested step is the cost of pacing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.spec.pace import releases
from studies.by_hand.pacing.pace_results import PaceResults
from studies.by_hand.pacing.turns import (
    REAL,
    by_round,
    in_turns,
    in_words,
    median,
    open_engine,
    realize_in,
    steady,
    table,
    with_pace,
)
from studies.by_hand.peers.links import cluster_of

__all__ = ["ASKED", "QUICK", "measure", "tables"]

ASKED = {
    "cluster": "topologies/uniform_1gbit.yaml",
    "models": ["mlp"],
    "rounds": 12,
    "steps": 60,
    "warmup": 5,
    "pass_ms": 150.0,
}
QUICK = {"rounds": 2, "steps": 3, "warmup": 1}

PACED, RESTED = "paced", "rested"
ALL, ONE = "four replicas and a server", "one replica, which sends nothing"
LATE_SECONDS, STEP_SHARE, PROCESSOR_SECONDS = 5e-3, 0.03, 2e-3
"""Upper limits of the 99th percentile of lateness, of a step's excess over its pass, and of processor time per replica
and step."""


def measure(kept: PaceResults, name: str) -> None:
    """Measure the missing rows on an emulated cluster called `name`."""
    asked = kept.asked
    with open_engine(name, cluster_of(asked["cluster"])) as engine:
        paced = with_pace(engine.cluster, steady(asked["pass_ms"]))
        for model in asked["models"]:
            engine.load(model, REAL)
            engine.load(model, RESTED)
            loaded = engine.load(model, PACED, paced)
            of_all = BASELINES["parameter_server"](loaded, engine.cluster)
            chosen = {
                ALL: of_all,
                ONE: replace(of_all, replicas=of_all.replicas[:1]),
            }  # the single replica's device also has the server
            replicas = {way: len(strategy.replicas) for way, strategy in chosen.items()}
            profile = loaded.pace_profile
            assert profile is not None, "a paced session profiles its model"
            made = {"gradient_bytes": loaded.gradient_bytes, "releases": len(releases(profile))}
            kept.note(model, **made, replicas=replicas, faults={})
            faults: dict[str, str] = {}
            for way, strategy in chosen.items():
                fault = realize_in(engine, strategy, (REAL, RESTED, PACED), asked["warmup"])
                if fault is None:
                    rounds, steps, pauses = asked["rounds"], asked["steps"], {RESTED: asked["pass_ms"] / 1e3}
                    named = {"model": model, "strategy": way}
                    in_turns(engine, kept, (REAL, RESTED, PACED), rounds, steps, pauses, **named)
                else:
                    faults[way] = fault
            kept.note(model, faults=faults)


def tables(kept: PaceResults) -> Iterator[str]:
    """Yield the tables of the kept rows."""
    for model, cell in kept.cells.items():
        for way, replicas in cell["replicas"].items():
            yield from _of_way(kept, model, way, replicas)
        for way, fault in cell["faults"].items():
            yield f"{way} could not run: {fault}"


def _of_way(kept: PaceResults, model: str, way: str, replicas: int) -> Iterator[str]:
    pass_seconds, gradient_bytes = kept.asked["pass_ms"] / 1e3, kept.cells[model]["gradient_bytes"]
    rows, rested, real = (
        list(kept.rows(model=model, strategy=way, session=session)) for session in (PACED, RESTED, REAL)
    )
    if not rows or not rested or not real:
        return
    p99 = by_round(rows, lambda row: row["late_p99"]).values()
    over = [seconds / pass_seconds - 1 for seconds in median(rows).values()]
    cost, cold, warm = (
        by_round(of, lambda row: statistics.fmean(row["servers_seconds"][:replicas])) for of in (rows, rested, real)
    )
    extra = [cost[number] - cold[number] for number in cost.keys() & cold.keys()]
    count = kept.cells[model]["releases"]
    yield f"{model}, {gradient_bytes / 1e3:.0f} kB of gradients, {way}, passes of {1e3 * pass_seconds:g} ms (paced)"
    yield table(
        ("", "median [95 %]", "limit", "kept"),
        [
            ("late, median (ms)", in_words(by_round(rows, lambda row: row["late_p50"]).values(), 1e3, 2), "", ""),
            ("late, 99th percentile (ms)", in_words(p99, 1e3, 2), "< 5", _yes(p99, LATE_SECONDS)),
            ("late, the latest (ms)", in_words(by_round(rows, lambda row: row["latest"]).values(), 1e3, 2), "", ""),
            ("step (ms)", in_words(median(rows).values(), 1e3, 1), "", ""),
            ("step over its pass (%)", in_words(over, 100, 2), "± 3", _yes(map(abs, over), STEP_SHARE)),
            ("the same step unpaced (ms)", in_words(median(real).values(), 1e3, 1), "", ""),
            ("the same step unpaced, after a pause (ms)", in_words(median(rested).values(), 1e3, 1), "", ""),
            (
                "processor, a replica (ms a step)",
                in_words(cost.values(), 1e3, 2),
                "≤ 2",
                _yes(cost.values(), PROCESSOR_SECONDS),
            ),
            ("processor, unpaced step (ms)", in_words(warm.values(), 1e3, 2), "", ""),
            ("processor, unpaced step after a pause (ms)", in_words(cold.values(), 1e3, 2), "", ""),
            ("pacing's own, paced less after a pause (ms)", in_words(extra, 1e3, 2), "", ""),
            (
                f"of that each of {count} releases (ms)",
                in_words([seconds / count for seconds in extra], 1e3, 3),
                "",
                "",
            ),
        ],
    )


def _yes(values: Iterable[float], most: float) -> str:
    return "yes" if statistics.median(values) <= most else "no"

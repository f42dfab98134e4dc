"""Pace alone: passes of 150 ms on four nodes and next to nothing to send; how late, how long, at what cost.

The model has kilobytes of gradients, which one server adds up over links of 1 Gbit/s; or one replica of the four has a
step for itself, with the server on its own device, and nothing is sent. The same step with passes that are computed
(`real`, a fraction of a millisecond) takes turns with the paced one: it is what is sent and added up, and the client.
It does so once at once, and once after a pause as long as a pass (`rested`), from which it begins in caches as cold as
those in which what follows a paced pass runs. What a paced step takes more of the processor than that is pacing's own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.spec.pace import releases
from tests.by_hand.pacing.kept import Kept
from tests.by_hand.pacing.turns import (
    REAL,
    by_round,
    engine_over,
    in_turns,
    in_words,
    median,
    paced_like,
    realized,
    steady,
    table,
)
from tests.by_hand.peers.links import cluster_of

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
"""What the 99th percentile of lateness, a step over its pass, and a replica's processor in a step are to stay under."""


def measure(kept: Kept, name: str) -> None:
    asked = kept.asked
    with engine_over(name, cluster_of(asked["cluster"])) as engine:
        paced = paced_like(engine.cluster, steady(asked["pass_ms"]))
        for model in asked["models"]:
            engine.load(model, REAL)
            engine.load(model, RESTED)
            loaded = engine.load(model, PACED, paced)
            of_all = BASELINES["parameter_server"](loaded, engine.cluster)
            chosen = {ALL: of_all, ONE: replace(of_all, replicas=of_all.replicas[:1])}  # the server is on its device
            replicas = {way: len(strategy.replicas) for way, strategy in chosen.items()}
            profile = loaded.pace_profile
            assert profile is not None, "a paced session profiles its model"
            made = {"gradient_bytes": loaded.gradient_bytes, "releases": len(releases(profile))}
            kept.note(model, **made, replicas=replicas, faults={})
            faults: dict[str, str] = {}
            for way, strategy in chosen.items():
                fault = realized(engine, strategy, (REAL, RESTED, PACED), asked["warmup"])
                if fault is None:
                    rounds, steps, pauses = asked["rounds"], asked["steps"], {RESTED: asked["pass_ms"] / 1e3}
                    named = {"model": model, "strategy": way}
                    in_turns(engine, kept, (REAL, RESTED, PACED), rounds, steps, pauses, **named)
                else:
                    faults[way] = fault
            kept.note(model, faults=faults)


def tables(kept: Kept) -> Iterator[str]:
    for model, cell in kept.cells.items():
        for way, replicas in cell["replicas"].items():
            yield from _of_way(kept, model, way, replicas)
        for way, fault in cell["faults"].items():
            yield f"{way} could not run: {fault}"


def _of_way(kept: Kept, model: str, way: str, replicas: int) -> Iterator[str]:
    pass_seconds, gradient_bytes = kept.asked["pass_ms"] / 1e3, kept.cells[model]["gradient_bytes"]
    rows, rested, real = (list(kept.rows(model=model, strategy=way, session=each)) for each in (PACED, RESTED, REAL))
    if not rows or not rested or not real:
        return
    p99 = by_round(rows, lambda row: row["late_p99"]).values()
    over = [each / pass_seconds - 1 for each in median(rows).values()]
    cost, cold, warm = (
        by_round(of, lambda row: statistics.fmean(row["servers_seconds"][:replicas])) for of in (rows, rested, real)
    )
    own = [cost[number] - cold[number] for number in cost.keys() & cold.keys()]
    count = kept.cells[model]["releases"]
    yield f"{model}, {gradient_bytes / 1e3:.0f} kB of gradients, {way}, passes of {1e3 * pass_seconds:g} ms (paced)"
    yield table(
        ("", "median [95 %]", "to be", "is it"),
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
            ("that of the unpaced step (ms)", in_words(warm.values(), 1e3, 2), "", ""),
            ("that of the unpaced step after a pause (ms)", in_words(cold.values(), 1e3, 2), "", ""),
            ("pacing's own, paced less after a pause (ms)", in_words(own, 1e3, 2), "", ""),
            (f"of that each of {count} releases (ms)", in_words([each / count for each in own], 1e3, 3), "", ""),
        ],
    )


def _yes(values: Iterable[float], most: float) -> str:
    return "yes" if statistics.median(values) <= most else "no"

"""Paced against itself: a CPU model's own passes, and the same passes paced by its profile, where there are cores.

Two nodes, each of whose processes stay on a processor of their own, over a slow link. Strategies are baselines that
differ. Where a pass is a small part of a step, steps are alike whatever passes are; so their difference stands there as
a share of a pass too. What both steps cost processors differs by the passes alone: that is what a pass takes where it
is computed, beside messages, and the profile what it took alone in the client's process.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from autosync.baselines import BASELINES, different_strategies
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Pace
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
    table,
)
from tests.by_hand.peers.links import cluster_of

__all__ = ["ASKED", "QUICK", "measure", "tables"]

ASKED = {
    "cluster": "topologies/uniform_200mbit.yaml",
    "models": ["bert-mini", "vgg-mini", "ncf-mini"],
    "rounds": 12,
    "steps": 12,
    "warmup": 5,
    "strategies": 6,
}
QUICK = {"models": ["mlp"], "rounds": 2, "steps": 2, "warmup": 1, "strategies": 2}

NODES, PACED = 2, "paced"
FIRST = (
    "parameter_server",
    "balanced_parameter_server",
    "all_reduce_25mb",
    "all_reduce_per_variable",
    "byteps",
    "poseidon",
    "parallax",
)
"""Baselines that differ most; others are taken where some of these are the same strategy."""

NEAR = 0.05
"""How far a paced step may be from the real one."""


def _first_nodes(whole: ClusterSpec) -> ClusterSpec:
    """The first nodes of a topology, each with the first one's link."""
    link = next(each for each in whole.links if each.source != each.target)
    figures = link.gbit_per_s, link.latency_us
    return ClusterSpec.star(whole.nodes[:NODES], *figures, *figures)


def measure(kept: Kept, name: str) -> None:
    asked, cpus = kept.asked, sorted(os.sched_getaffinity(0))[:NODES]
    if len(cpus) < NODES:
        raise SpecError(f"A processor for each of {NODES} nodes is needed, and there are {len(cpus)}.")
    ordered = {name: BASELINES[name] for name in dict.fromkeys((*FIRST, *BASELINES))}
    cluster = _first_nodes(cluster_of(asked["cluster"]))
    with engine_over(name, cluster, cpus) as engine:
        paced = paced_like(engine.cluster, Pace())
        for model in asked["models"]:
            # Paced first: the profile is of a process that has run nothing else of the model.
            loaded = engine.load(model, PACED, paced)
            engine.load(model, REAL)
            assert loaded.profile is not None
            kept.note(model, pass_seconds=loaded.profile.forward_seconds + loaded.profile.backward_seconds, faults={})
            different = different_strategies(ordered, loaded, engine.cluster)
            faults: dict[str, str] = {}
            for number, (baseline, strategy) in enumerate(different.items()):
                if number - len(faults) >= asked["strategies"]:
                    break
                if len(list(kept.rows(model=model, strategy=baseline))) == 2 * asked["rounds"]:
                    continue
                fault = realized(engine, strategy, (REAL, PACED), asked["warmup"])
                if fault is not None:
                    faults[baseline] = fault
                    kept.note(model, faults=faults)
                else:
                    in_turns(
                        engine, kept, (REAL, PACED), asked["rounds"], asked["steps"], model=model, strategy=baseline
                    )
                for session in (REAL, PACED):
                    engine.forget(session)


def tables(kept: Kept) -> Iterator[str]:
    for model, cell in kept.cells.items():
        yield f"{model}: a pass takes {1e3 * cell['pass_seconds']:.1f} ms by its profile"
        yield table(
            (
                "strategy",
                "real (ms)",
                "paced (ms)",
                "paced / real [95 %]",
                "within 5 %",
                "difference (% of a pass)",
                "pass in place (ms)",
                "late p50, p99 (ms, paced)",
            ),
            list(_rows(kept, model)),
        )
        for name, fault in cell["faults"].items():
            yield f"`{name}` could not run: {fault}"


def _rows(kept: Kept, model: str) -> Iterator[tuple[str, ...]]:
    for strategy in dict.fromkeys(row["strategy"] for row in kept.rows(model=model)):
        real, paced = (list(kept.rows(model=model, strategy=strategy, session=each)) for each in (REAL, PACED))
        seconds, waited = median(real), median(paced)
        both = sorted(seconds.keys() & waited.keys())
        ratios = [waited[each] / seconds[each] for each in both]
        cost, without = (by_round(rows, lambda row: row["servers_seconds"]) for rows in (real, paced))
        passes = [(cost[each] - without[each]) / NODES for each in both]
        near = ratios and abs(statistics.median(ratios) - 1) <= NEAR
        yield (
            f"`{strategy}`",
            in_words(seconds.values(), 1e3),
            in_words(waited.values(), 1e3),
            in_words(ratios, 1, 3),
            "yes" if near else "no",
            in_words([(waited[each] - seconds[each]) / kept.cells[model]["pass_seconds"] for each in both], 100, 0),
            in_words(passes, 1e3),
            f"{_middle(paced, 'late_p50')}, {_middle(paced, 'late_p99')}",
        )


def _middle(rows: list[dict[str, float]], name: str) -> str:
    return f"{1e3 * statistics.median(row[name] for row in rows):.2f}" if rows else "-"

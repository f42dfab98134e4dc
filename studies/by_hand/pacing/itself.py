"""Compares real passes of a CPU model with the same passes paced by its profile, on nodes with a processor each.

Two nodes are connected by a slow link, and each node's processes are pinned to a processor of their own. Strategies are
baselines that differ. If a pass is a small part of a step, steps are similar for any passes, so the difference is also
given as a share of a pass. The processor times of the two steps differ only by the passes. This difference is the cost
of a pass in parallel with messages, whereas the profile has the cost of a pass alone in the client's process.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator

from autosync.baselines import BASELINES, different_strategies
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Pace
from studies.by_hand.pacing.pace_results import PaceResults
from studies.by_hand.pacing.turns import (
    REAL,
    by_round,
    in_turns,
    in_words,
    median,
    open_engine,
    realize_in,
    table,
    with_pace,
)
from studies.by_hand.peers.links import cluster_of

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
"""The most different baselines; others replace those that are the same strategy on the cluster."""

NEAR = 0.05
"""The largest relative difference between a paced and a real step."""


def _first_nodes(whole: ClusterSpec) -> ClusterSpec:
    """Return the first nodes of a topology as a star, all with the topology's first link."""
    link = next(link for link in whole.links if link.source != link.target)
    figures = link.gbit_per_s, link.latency_us
    return ClusterSpec.star(whole.nodes[:NODES], *figures, *figures)


def measure(kept: PaceResults, name: str) -> None:
    """Measure the missing rows on an emulated cluster called `name`."""
    asked, cpus = kept.asked, sorted(os.sched_getaffinity(0))[:NODES]
    if len(cpus) < NODES:
        raise SpecError(f"The benchmark needs a processor for each of {NODES} nodes, but this machine has {len(cpus)}.")
    ordered = {name: BASELINES[name] for name in dict.fromkeys((*FIRST, *BASELINES))}
    cluster = _first_nodes(cluster_of(asked["cluster"]))
    with open_engine(name, cluster, cpus) as engine:
        paced = with_pace(engine.cluster, Pace())
        for model in asked["models"]:
            # Paced first, so that the profile is taken before the process has run the model in another way.
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
                fault = realize_in(engine, strategy, (REAL, PACED), asked["warmup"])
                if fault is not None:
                    faults[baseline] = fault
                    kept.note(model, faults=faults)
                else:
                    in_turns(
                        engine, kept, (REAL, PACED), asked["rounds"], asked["steps"], model=model, strategy=baseline
                    )
                for session in (REAL, PACED):
                    engine.forget(session)


def tables(kept: PaceResults) -> Iterator[str]:
    """Yield the tables of the kept rows."""
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


def _rows(kept: PaceResults, model: str) -> Iterator[tuple[str, ...]]:
    for strategy in dict.fromkeys(row["strategy"] for row in kept.rows(model=model)):
        real, paced = (list(kept.rows(model=model, strategy=strategy, session=session)) for session in (REAL, PACED))
        seconds, waited = median(real), median(paced)
        rounds = sorted(seconds.keys() & waited.keys())
        ratios = [waited[number] / seconds[number] for number in rounds]
        cost, without = (by_round(rows, lambda row: statistics.fmean(row["servers_seconds"])) for rows in (real, paced))
        passes = [cost[number] - without[number] for number in rounds]
        near = ratios and abs(statistics.median(ratios) - 1) <= NEAR
        yield (
            f"`{strategy}`",
            in_words(seconds.values(), 1e3),
            in_words(waited.values(), 1e3),
            in_words(ratios, 1, 3),
            "yes" if near else "no",
            in_words(
                [(waited[number] - seconds[number]) / kept.cells[model]["pass_seconds"] for number in rounds], 100, 0
            ),
            in_words(passes, 1e3),
            f"{_middle(paced, 'late_p50')}, {_middle(paced, 'late_p99')}",
        )


def _middle(rows: list[dict[str, float]], name: str) -> str:
    return f"{1e3 * statistics.median(row[name] for row in rows):.2f}" if rows else "-"

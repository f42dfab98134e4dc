"""Times baselines on emulated clusters, to show that the winner depends on the model and on the network.

    python -m studies.by_hand.bench_topologies --out topologies.json 4x1gbit 4x200mbit topologies/two_racks.yaml

Needs root. For each cluster, the output has the seconds of setup and teardown, the memory per node, and each link's
probed and configured rate. For each model, all baselines that differ on the cluster are time_baselines in turns
(A/B/.../A/B/...). The table has the medians over all turns' steps and the 95 % interval of the median of the turns'
medians (with under 6 turns the range, which has a lower confidence). The ideal is the busiest link's bytes divided by
its rate.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from autosync.spec import ClusterSpec

MODELS = ("bert", "ncf-mini", "vgg-mini")
WARMUP, STEPS = 1, 5
ENOUGH_TURNS = 6
"""Fewest turns for a 95 % interval by order statistics."""
STOP_FACTOR = 5.0


@click.group()
def main() -> None:
    """Baselines over topologies."""


@main.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option(
    "--out", type=Path, required=True, help="JSON file of the results; clusters with results are not measured again."
)
@click.option("--models", default=",".join(MODELS))
@click.option("--turns", default=ENOUGH_TURNS)
def over(clusters: tuple[str, ...], out: Path, models: str, turns: int) -> None:
    """Emulate each of CLUSTERS (4x200mbit, or a cluster file) in turn, and time the baselines of each model on it."""
    from studies.by_hand.peers.links import cluster_of
    from trials.emulate import emulated, run_inside
    from trials.emulate.status import usage_of

    done = json.loads(out.read_text()) if out.exists() else {}
    for text in clusters:
        if text in done:
            continue
        spec = cluster_of(text)
        begin = time.monotonic()
        part = out.with_suffix(".part")
        with emulated("bench", spec) as made:
            up_seconds = time.monotonic() - begin
            memory = [usage_of(host).memory_bytes for host in made.hosts]
            command = [sys.executable, "-m", "studies.by_hand.bench_topologies", "here", str(part), models, str(turns)]
            assert run_inside(made.hosts[0], command) == 0
            begin = time.monotonic()
        down_seconds = time.monotonic() - begin
        done[text] = json.loads(part.read_text()) | {
            "up_seconds": up_seconds,
            "down_seconds": down_seconds,
            "memory_bytes": memory,
            "stated": spec.to_json(),
        }
        part.unlink()
        out.write_text(json.dumps(done))
        print_cluster(text, done[text])


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print the results in OUT."""
    for text, result in json.loads(out.read_text()).items():
        print_cluster(text, result)


@main.command(hidden=True)
@click.argument("part", type=Path)
@click.argument("models")
@click.argument("turns", type=int)
def here(part: Path, models: str, turns: int) -> None:
    """Probe the cluster and time the baselines of each model; runs on the cluster's head."""
    import ray

    from trials.cluster.discovery import cluster_from_ray_nodes
    from trials.workers.local_ray import RayStart, start_ray

    start_ray(RayStart())
    cluster, results = cluster_from_ray_nodes(ray.nodes()), {}
    for index, model in enumerate(models.split(",")):
        cluster, results[model] = time_baselines(model, cluster, turns, probe=index == 0)
    part.write_text(json.dumps({"probed": cluster.to_json(), "models": results}))


def time_baselines(model: str, cluster: ClusterSpec, count: int, probe: bool) -> tuple[ClusterSpec, dict[str, Any]]:
    """Return the cluster as probed, each baseline's step seconds by turn, and its ideal seconds."""
    from autosync.baselines import BASELINES
    from autosync.search.verdict.judging import interleave
    from autosync.spec import TimingProtocol
    from trials.fleet.on_ray import Launch, RayBackend
    from trials.opening import model_on, trials_on_ray
    from trials.trial import TrialRequest

    backend = RayBackend(Launch(model_on(model, cluster), cluster, trials_on_ray(cluster, probe)))
    try:
        strategies = {}
        for name, baseline in BASELINES.items():
            strategies.setdefault(baseline(backend.model, backend.cluster), name)
        turns: dict[str, list[list[float]]] = {name: [] for name in strategies.values()}
        best = math.inf
        for _, (strategy, name) in interleave(list(strategies.items()), count):
            protocol = TimingProtocol(WARMUP, STEPS, stop_factor=STOP_FACTOR, check_after=2)
            record = backend.run(TrialRequest(strategy, protocol, label=name, best_median_seconds=best))
            turns[name].append(list(record.step_seconds))
            best = min(best, record.median_seconds or math.inf)
        ideals = {name: ideal_seconds(backend, strategy) for strategy, name in strategies.items()}
        return backend.cluster, {"turns": turns, "ideal_seconds": ideals, "bytes": backend.model.gradient_bytes}
    finally:
        backend.close()


def ideal_seconds(backend: Any, strategy: Any) -> float:
    """Return the busiest link's bytes per step divided by its rate."""
    from autosync.cost import traffic

    links = backend.cluster.links
    moved = traffic(backend.model, backend.cluster, strategy).bytes
    return max(
        count / link.bytes_per_second for link, count in zip(links, moved, strict=True) if link.source != link.target
    )


def print_cluster(text: str, result: dict[str, Any]) -> None:
    """Print the cluster's figures, then a table per model."""
    memory = ", ".join(f"{size / 1e6:.0f}" for size in result["memory_bytes"])
    print(f"\n{text}: up {result['up_seconds']:.1f} s, down {result['down_seconds']:.1f} s, memory a node {memory} MB")
    for line in _link_lines(result):
        print(f"  {line}")
    for model, table in result["models"].items():
        print(f"  {model} ({table['bytes'] / 1e6:.2f} MB of gradients)")
        rows = sorted(
            (statistics.median(chain.from_iterable(turns)), name, turns)
            for name, turns in table["turns"].items()
            if any(turns)
        )
        for median, name, turns in rows:
            low, high = _interval(turns)
            certainty = " 95 %" if sum(map(bool, turns)) >= ENOUGH_TURNS else "range"
            print(
                f"    {name:<30} {median * 1e3:8.1f} ms  {certainty} {low * 1e3:7.1f} - {high * 1e3:7.1f}  "
                f"{rows[0][0] / median:5.2f} x  ideal {table['ideal_seconds'][name] * 1e3:7.1f}"
            )


def _interval(turns: list[list[float]]) -> tuple[float, float]:
    from autosync.spec import median_interval

    return median_interval([statistics.median(turn) for turn in turns if turn])


def _link_lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield a line for every link that is no loopback: configured rate, probed rate and difference."""
    stated, probed = (ClusterSpec.from_json(result[name]) for name in ("stated", "probed"))
    for link in stated.links:
        if link.source == link.target or link.gbit_per_s.source == "assumed":
            continue
        at = next(
            (
                candidate
                for candidate in probed.links
                if (candidate.source, candidate.target) == (link.source, link.target)
            ),
            None,
        )
        if at is not None:
            error = at.gbit_per_s.value / link.gbit_per_s.value - 1
            yield (
                f"{link.source} -> {link.target}: set {link.gbit_per_s.value * 1e3:.0f} Mbit/s, "
                f"probed {at.gbit_per_s.value * 1e3:.0f} ({error:+.1%}), {at.latency_us.value:.0f} us"
            )


if __name__ == "__main__":
    main()

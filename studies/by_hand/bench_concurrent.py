"""Compares trials that run in parallel with trials that run alone, on an emulated cluster with CPU quotas.

    python -m studies.by_hand.bench_concurrent --model ncf-mini --link 200mbit --cores 0.4

Needs root. Four nodes make two lanes of two nodes. In turns, each strategy runs on the first lane while the second is
idle, and then while another strategy runs on the second. The output has the medians of both, and the ratio of side by
side to alone with its 95 % interval over turns; the ideal is 1.
"""

from __future__ import annotations

import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

TURNS, WARMUP, STEPS = 6, 2, 10
STRATEGIES = ("parameter_server", "balanced_parameter_server", "partitioned_parameter_server", "all_reduce_25mb")


@click.command()
@click.option("--model", default="ncf-mini")
@click.option("--link", default="200mbit")
@click.option("--cores", default=0.4, help="Quota of each of the four nodes; 0 for none.")
@click.option("--inside", is_flag=True, hidden=True)
def main(model: str, link: str, cores: float, inside: bool) -> None:
    """Compare trials alone and side by side."""
    if inside:
        _compare(model)
        return
    from trials.cluster.racks import parse_rate, star_of
    from trials.emulate import emulated, run_inside

    with emulated("concurrent", star_of(4, parse_rate(link), cores or None)) as made:
        print(f"{model}, 4 nodes of {cores or 'all'} cores at {link}, two lanes of two")
        sys.stdout.flush()
        command = [sys.executable, "-m", "studies.by_hand.bench_concurrent", "--inside", "--model", model]
        # The driver is not part of a trial and needs more than the head's share of a core.
        sys.exit(run_inside(made.hosts[0], command, within_quota=False))


def _compare(model: str) -> None:
    import ray

    from trials.cluster.discovery import cluster_from_ray_nodes
    from trials.cluster.node_matching import groups_of
    from trials.fleet.fleet import Fleet, FleetSettings
    from trials.opening import model_on, trials_on_ray
    from trials.workers.local_ray import RayStart, start_ray

    start_ray(RayStart())
    groups = groups_of(cluster_from_ray_nodes(ray.nodes()), 2)
    fleet = Fleet(model_on(model, groups[0]), groups, FleetSettings(trials_on_ray(groups[0], probe=False)), print)
    try:
        _print(_time_lanes(fleet))
    finally:
        fleet.close()


def _time_lanes(fleet: Any) -> dict[str, dict[str, list[float]]]:
    """Return median step seconds by strategy and way, one per turn."""
    from autosync.baselines import BASELINES
    from autosync.spec import TimingProtocol
    from trials.trial import TrialRequest

    lanes, run = (fleet.take(), fleet.take()), fleet.runner()
    assert None not in lanes, "the benchmark needs two lanes"

    def request(name: str) -> TrialRequest:
        return TrialRequest(BASELINES[name](fleet.model, fleet.cluster), TimingProtocol(WARMUP, STEPS), label=name)

    seconds: dict[str, dict[str, list[float]]] = {name: {"alone": [], "side by side": []} for name in STRATEGIES}
    with ThreadPoolExecutor(1) as second_lane:
        for _ in range(TURNS):
            for index, name in enumerate(STRATEGIES):
                seconds[name]["alone"].append(run(lanes[0], request(name)).median_seconds)
                beside = second_lane.submit(run, lanes[1], request(STRATEGIES[index - 1]))
                seconds[name]["side by side"].append(run(lanes[0], request(name)).median_seconds)
                beside.result()
    return seconds


def _print(seconds: dict[str, dict[str, list[float]]]) -> None:
    from autosync.spec import median_interval

    for name, by_way in seconds.items():
        alone, beside = by_way["alone"], by_way["side by side"]
        ratios = [parallel / single for single, parallel in zip(alone, beside, strict=True)]
        low, high = median_interval(ratios)
        print(
            f"  {name:<30} alone {statistics.median(alone) * 1e3:7.1f} ms  side by side "
            f"{statistics.median(beside) * 1e3:7.1f} ms  ratio {statistics.median(ratios):.3f}  "
            f"95 % {low:.3f} - {high:.3f}  ideal 1"
        )


if __name__ == "__main__":
    main()

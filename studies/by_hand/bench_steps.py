"""Compares the times of all kinds of steps in two checkouts, in turns, to find the cost of a change of the engine.

    git worktree add ../before COMMIT
    python -m studies.by_hand.bench_steps --trees ../before . --turns 5

Each turn is a process of its own with one of the trees as its PYTHONPATH. It runs steps of bert-mini on four logical
devices: all-reduced, on servers, stale, K-sync, local SGD, and paced with recorded and with held gradients. The table
has the median step of each tree over the turns, and the ratio of the second tree to the first with the 95 % interval of
the median of the ratios by turn. Needs the machine for itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

STEPS, WARM_UP = 40, 5


def measure() -> dict[str, float]:
    """Return the median seconds of a step of each kind, in the tree that this process imports."""
    try:
        from autosync.engine.tensorflow.capture.capturing import capture
        from autosync.engine.tensorflow.capture.profile import profiled
        from autosync.engine.tensorflow.placement import Placement
        from autosync.engine.tensorflow.servers import use_logical_devices
        from autosync.engine.tensorflow.step.session import Session
        from autosync.zoo import build_task
    except ModuleNotFoundError:  # a tree older than `engine.core`
        from autosync.engine.capture.capturing import capture  # type: ignore[no-redef]
        from autosync.engine.capture.profile import profiled  # type: ignore[no-redef]
        from autosync.engine.placement import Placement  # type: ignore[no-redef]
        from autosync.engine.servers import use_logical_devices  # type: ignore[no-redef]
        from autosync.engine.step.realize import Session  # type: ignore[no-redef]
        from autosync.engine.zoo import build_task  # type: ignore[no-redef]
    from autosync.baselines import BASELINES
    from autosync.spec import CutOff, Discipline, Pace, Rhythm
    from trials.cluster.discovery import local_cluster

    use_logical_devices(4, 4)
    captured, cluster = profiled(capture(build_task("bert-mini"))), local_cluster(4)
    paces = {numbers: Pace(fixed_seconds=0.05, numbers=numbers) for numbers in ("recorded", "held")}
    paced = {
        numbers: replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))
        for numbers, pace in paces.items()
    }
    plain = BASELINES["all_reduce_25mb"](captured.spec, cluster)
    served = BASELINES["balanced_parameter_server"](captured.spec, cluster)
    stale = replace(
        served,
        variables=tuple(
            replace(variable, shards=tuple(replace(shard, staleness=2, local_copy=False) for shard in variable.shards))
            for variable in served.variables
        ),
    )
    kinds = {
        "all-reduced": (cluster, plain),
        "on servers": (cluster, served),
        "stale by 2": (cluster, stale),
        "K-sync, 3 of 4": (cluster, replace(plain, discipline=Discipline(waits=CutOff(3)))),
        "local SGD, 4 steps": (cluster, replace(plain, discipline=Discipline(Rhythm(4)))),
        "paced, recorded": (paced["recorded"], plain),
        "paced, held": (paced["held"], plain),
    }
    medians = {}
    for name, (where, strategy) in kinds.items():
        step = Session(captured, where, Placement.in_one_process(where)).realize(strategy)
        medians[name] = _median_seconds(step)
        step.close()
    return medians


def _median_seconds(step: Any) -> float:
    for _ in range(WARM_UP):
        step()
    step.settle()
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def turn(tree: Path) -> dict[str, float]:
    """Run `measure` in a process that imports from `tree`."""
    environment = os.environ | {"PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(Path(__file__).resolve()), "--measure"]
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    medians: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", nargs=2, type=Path, metavar=("BEFORE", "NOW"))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help="one turn, of the tree in PYTHONPATH")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    turns = []
    for number in range(options.turns):
        first = number % 2  # alternating the order, so that a machine that becomes slower favors neither tree
        results = {place: turn(options.trees[place].resolve()) for place in (first, 1 - first)}
        turns.append([results[0], results[1]])
    from autosync.spec import median_interval

    for name in turns[0][0]:
        before, now = (statistics.median(pair[place][name] for pair in turns) for place in (0, 1))
        ratios = [pair[1][name] / pair[0][name] for pair in turns]
        low, high = median_interval(ratios)
        ratio = f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]"
        print(f"{name:20} {1e3 * before:7.1f} {1e3 * now:7.1f} ms  {ratio}")


if __name__ == "__main__":
    main()

"""The time to switch to a strategy on real servers: seconds to place, to trace and to run the first step.

    python -m studies.by_hand.bench_switch --model bert-mini --rounds 6
    python -m studies.by_hand.bench_switch --model bert-base --rounds 2 --trace-only
    python -m studies.by_hand.bench_switch --model bert-base --rounds 2 --workers 16 --trace-only \\
        --ways "servers in turn"

The worker processes run on this machine; there are four by default. Strategies take turns (A/B/C/A/B/C...), so that
slow periods of the machine affect all of them. The output has medians with the 95 % interval over rounds (the range,
with under six). `switch` is the cost of a trial beyond its steps: placing, tracing, and the first step minus a later
one. With `--trace-only` no step runs, for models whose steps exceed this machine's memory or time; the switch then
excludes the first run. A replica of bert-base holds 1.7 GB of values, slots and gradients when it reduces them, and a
server's device holds 0.4 GB of initial values.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.spec import ClusterSpec, Figure, ModelSpec, Node, Strategy, median_interval
from tests.contracts.ways import ALONE
from tests.engine.worker_processes import REPOSITORY, quiet, worker_processes

PARTS = ("place", "trace", "first step", "later step", "switch")
STRATEGIES = ("one server", "servers in turn", "servers, first axis cut", "one ring", "two rings", "a ring a variable")
LATER_STEPS = 5

Seconds = dict[tuple[str, str], list[float]]  # (strategy, part) -> one value per round


@dataclass(frozen=True)
class SwitchPlan:
    """The strategies to switch between, and the number of rounds."""

    model: str
    rounds: int
    workers: int
    ways: tuple[str, ...]
    trace_only: bool


def _cluster(workers: int) -> ClusterSpec:
    """Return a cluster of one machine; its links are irrelevant because no time is predicted."""
    rate, latency = Figure(10.0, "assumed"), Figure(50.0, "assumed")
    return ClusterSpec.star((Node("node0", "127.0.0.1", 2.0, workers=workers),), rate, latency, rate, latency)


def _client(plan: SwitchPlan, addresses: list[str]) -> None:
    """Measure all switches; runs in a child process, which gets the servers' addresses."""
    from autosync.engine.tensorflow.capture.capturing import capture
    from autosync.engine.tensorflow.placement import Placement
    from autosync.engine.tensorflow.servers import connect
    from autosync.engine.tensorflow.step.session import TensorFlowSession
    from autosync.zoo import build_task

    captured = capture(build_task(plan.model))
    connect(addresses)
    cluster = _cluster(plan.workers)
    session = TensorFlowSession(captured, cluster, Placement.on_workers(cluster))
    seconds_of: Seconds = {(way, part): [] for way in plan.ways for part in PARTS}
    _switch(
        session, ALONE[plan.ways[0]](session.model, cluster), plan.trace_only
    )  # the initial values are sent only once
    for number in range(plan.rounds):
        for way in plan.ways:
            strategy = ALONE[way](session.model, cluster)
            for part, seconds in _switch(session, strategy, plan.trace_only).items():
                seconds_of[way, part].append(seconds)
        print(f"round {number + 1} of {plan.rounds}", file=sys.stderr, flush=True)
    print(_table(session.model, plan, seconds_of), flush=True)


def _switch(session: Any, strategy: Strategy, trace_only: bool) -> dict[str, float]:
    """Return the seconds of the parts of a switch, by name in `PARTS`."""
    gc.collect()  # as between trials, frees the last strategy's variables on the workers
    times = [time.perf_counter()]

    def run_timed(action: Callable[[], Any]) -> Any:
        result = action()
        times.append(time.perf_counter())
        return result

    step = run_timed(lambda: session.realize(strategy))
    run_timed(lambda: step._own_batches.get_concrete_function())
    if trace_only:
        place, trace = np.diff(times)
        return {"place": place, "trace": trace, "switch": place + trace}
    run_timed(step)
    place, trace, first = np.diff(times)
    later = []
    for _ in range(LATER_STEPS):
        begin = time.perf_counter()
        step()
        later.append(time.perf_counter() - begin)
    step_seconds = float(np.median(later))
    return dict(zip(PARTS, (place, trace, first, step_seconds, place + trace + first - step_seconds), strict=True))


def _table(model: ModelSpec, plan: SwitchPlan, seconds_of: Seconds) -> str:
    megabytes = sum(variable.bytes for variable in model.variables) / 1e6
    lines = [
        f"{model.name}: {len(model.variables)} variables, {megabytes:.1f} MB; {plan.workers} workers; median seconds"
    ]
    lines.append(f"{'':26}" + "".join(f"{part:>24}" for part in PARTS))
    for way in plan.ways:
        lines.append(f"{way:26}" + "".join(f"{_median(seconds_of[way, part]):>24}" for part in PARTS))
    return "\n".join(lines)


def _median(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    low, high = median_interval(seconds)
    return f"{np.median(seconds):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-mini")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--ways", nargs="+", default=STRATEGIES, choices=ALONE, metavar="WAY")
    parser.add_argument("--trace-only", action="store_true")
    parser.add_argument(
        "--client", nargs="+", help=argparse.SUPPRESS
    )  # this program in a child process, with the addresses
    options = parser.parse_args()
    if options.client:
        plan = SwitchPlan(options.model, options.rounds, options.workers, tuple(options.ways), options.trace_only)
        _client(plan, options.client)
        return
    with worker_processes(options.workers) as addresses:
        command = [sys.executable, "-m", "studies.by_hand.bench_switch", *sys.argv[1:], "--client", *addresses]
        raise SystemExit(subprocess.run(command, cwd=REPOSITORY, env=quiet(), check=False).returncode)


if __name__ == "__main__":
    main()

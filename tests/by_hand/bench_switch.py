"""How long it takes to switch to a strategy: seconds to place, to trace and run the first step, over real servers.

    python -m tests.by_hand.bench_switch --model bert-mini --rounds 6
    python -m tests.by_hand.bench_switch --model bert-base --rounds 2 --trace-only
    python -m tests.by_hand.bench_switch --model bert-base --rounds 2 --workers 16 --trace-only --ways "servers in turn"

Worker processes on this machine, four if not said otherwise. Strategies take turns (A/B/C/A/B/C...), so that a slow
minute of the machine meets all of them; shown are medians with the 95 % interval over rounds (the range, with under
six). `switch` is what a trial costs beyond its steps: placing, tracing, and the first step less a later one. With
`--trace-only` no step runs, for models whose steps this machine has no memory or no time for; the switch then lacks
what the first run costs. A replica of bert-base holds 1.7 GB of values, slots and gradients when it reduces them, and
a server's device 0.4 GB of initial values.
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

Seconds = dict[tuple[str, str], list[float]]  # (strategy, part) -> one for each round


@dataclass(frozen=True)
class What:
    """What is switched between, and how often."""

    model: str
    rounds: int
    workers: int
    ways: tuple[str, ...]
    trace_only: bool


def _cluster(workers: int) -> ClusterSpec:
    """One machine; the links do not matter here, no time is predicted."""
    rate, latency = Figure(10.0, "assumed"), Figure(50.0, "assumed")
    return ClusterSpec.star((Node("node0", "127.0.0.1", 2.0, workers=workers),), rate, latency, rate, latency)


def _client(what: What, addresses: list[str]) -> None:
    """Runs in a process of its own, which the servers' addresses are given to."""
    from autosync.engine.capture.capturing import capture
    from autosync.engine.placement import Placement
    from autosync.engine.servers import connect
    from autosync.engine.step.realize import Session
    from autosync.engine.zoo import build_task

    captured = capture(build_task(what.model))
    connect(addresses)
    cluster = _cluster(what.workers)
    session = Session(captured, cluster, Placement.on_workers(cluster))
    found: Seconds = {(way, part): [] for way in what.ways for part in PARTS}
    _switch(session, ALONE[what.ways[0]](session.model, cluster), what.trace_only)  # initial values come only once
    for number in range(what.rounds):
        for way in what.ways:
            strategy = ALONE[way](session.model, cluster)
            for part, seconds in _switch(session, strategy, what.trace_only).items():
                found[way, part].append(seconds)
        print(f"round {number + 1} of {what.rounds}", file=sys.stderr, flush=True)
    print(_table(session.model, what, found), flush=True)


def _switch(session: Any, strategy: Strategy, trace_only: bool) -> dict[str, float]:
    """Seconds of those of `PARTS` that were gone through."""
    gc.collect()  # as between trials: the last strategy's variables leave the workers
    times = [time.perf_counter()]

    def timed(action: Callable[[], Any]) -> Any:
        result = action()
        times.append(time.perf_counter())
        return result

    step = timed(lambda: session.realize(strategy))
    timed(lambda: step._own_batches.get_concrete_function())
    if trace_only:
        place, trace = np.diff(times)
        return {"place": place, "trace": trace, "switch": place + trace}
    timed(step)
    place, trace, first = np.diff(times)
    later = []
    for _ in range(LATER_STEPS):
        begin = time.perf_counter()
        step()
        later.append(time.perf_counter() - begin)
    step_seconds = float(np.median(later))
    return dict(zip(PARTS, (place, trace, first, step_seconds, place + trace + first - step_seconds), strict=True))


def _table(model: ModelSpec, what: What, found: Seconds) -> str:
    megabytes = sum(each.bytes for each in model.variables) / 1e6
    lines = [
        f"{model.name}: {len(model.variables)} variables, {megabytes:.1f} MB; {what.workers} workers; median seconds"
    ]
    lines.append(f"{'':26}" + "".join(f"{part:>24}" for part in PARTS))
    for way in what.ways:
        lines.append(f"{way:26}" + "".join(f"{_median(found[way, part]):>24}" for part in PARTS))
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
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)  # this very program, given the addresses
    options = parser.parse_args()
    if options.client:
        what = What(options.model, options.rounds, options.workers, tuple(options.ways), options.trace_only)
        _client(what, options.client)
        return
    with worker_processes(options.workers) as addresses:
        command = [sys.executable, "-m", "tests.by_hand.bench_switch", *sys.argv[1:], "--client", *addresses]
        raise SystemExit(subprocess.run(command, cwd=REPOSITORY, env=quiet(), check=False).returncode)


if __name__ == "__main__":
    main()

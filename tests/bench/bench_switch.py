"""How long it takes to switch to a strategy: seconds to place, to trace and run the first step, over real servers.

    python -m tests.bench.bench_switch --model bert-mini --rounds 5

Four worker processes on this machine. Strategies take turns (A/B/C/A/B/C...), so that a slow minute of the machine
meets all of them; shown are medians with 95 % percentile-bootstrap intervals. `switch` is the sum of the
three before it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autosync.spec import ClusterSpec, Figure, ModelSpec, Node, Strategy
from tests.contracts.ways import ALONE
from tests.engine.worker_processes import REPOSITORY, quiet, worker_processes

WORKERS = 4
PARTS = ("place", "trace", "first step", "switch", "later step")
STRATEGIES = ("one server", "servers in turn", "servers, first axis cut", "one ring", "two rings", "a ring a variable")
LATER_STEPS = 5

Seconds = dict[tuple[str, str], list[float]]  # (strategy, part) -> one for each round


def _cluster() -> ClusterSpec:
    """One machine; the links do not matter here, no time is predicted."""
    rate, latency = Figure(10.0, "assumed"), Figure(50.0, "assumed")
    return ClusterSpec.star((Node("node0", "127.0.0.1", 2.0, workers=WORKERS),), rate, latency, rate, latency)


def _client(model: str, rounds: int, addresses: list[str]) -> None:
    """Runs in a process of its own, which the servers' addresses are given to."""
    from autosync.engine.capture import capture
    from autosync.engine.placement import Placement
    from autosync.engine.servers import connect
    from autosync.engine.session import Session
    from autosync.engine.zoo import build_task

    captured = capture(build_task(model))
    connect(addresses)
    cluster = _cluster()
    session = Session(captured, cluster, Placement.on_workers(cluster))
    found: Seconds = {(way, part): [] for way in STRATEGIES for part in PARTS}
    _switch(session, ALONE[STRATEGIES[0]](session.model, cluster))  # initial values reach the workers once
    for number in range(rounds):
        for way in STRATEGIES:
            strategy = ALONE[way](session.model, cluster)
            for part, seconds in zip(PARTS, _switch(session, strategy), strict=True):
                found[way, part].append(seconds)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    print(_table(session.model, found), flush=True)


def _switch(session: Any, strategy: Strategy) -> tuple[float, ...]:
    """Seconds of each of `PARTS`."""
    times = [time.perf_counter()]

    def timed(action: Callable[[], Any]) -> Any:
        result = action()
        times.append(time.perf_counter())
        return result

    step = timed(lambda: session.realize(strategy))
    timed(lambda: step._own_batches.get_concrete_function())
    timed(step)
    place, trace, first = np.diff(times)
    later = []
    for _ in range(LATER_STEPS):
        begin = time.perf_counter()
        step()
        later.append(time.perf_counter() - begin)
    return place, trace, first, place + trace + first, float(np.median(later))


def _table(model: ModelSpec, found: Seconds) -> str:
    megabytes = sum(each.bytes for each in model.variables) / 1e6
    lines = [f"{model.name}: {len(model.variables)} variables, {megabytes:.1f} MB; {WORKERS} workers; median seconds"]
    lines.append(f"{'':26}" + "".join(f"{part:>22}" for part in PARTS))
    for way in STRATEGIES:
        lines.append(f"{way:26}" + "".join(f"{_median(found[way, part]):>22}" for part in PARTS))
    return "\n".join(lines)


def _median(seconds: list[float]) -> str:
    drawn = np.random.default_rng(0).choice(seconds, size=(2000, len(seconds)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return f"{np.median(seconds):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-mini")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)  # this very program, given the addresses
    options = parser.parse_args()
    if options.client:
        _client(options.model, options.rounds, options.client)
        return
    with worker_processes(WORKERS) as addresses:
        command = [sys.executable, "-m", "tests.bench.bench_switch", "--model", options.model]
        command += ["--rounds", str(options.rounds), "--client", *addresses]
        raise SystemExit(subprocess.run(command, cwd=REPOSITORY, env=quiet(), check=False).returncode)


if __name__ == "__main__":
    main()

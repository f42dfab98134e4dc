"""What TensorFlow's automatic order costs where nothing needs it: graphs and seconds with and without three chains.

    python -m tests.by_hand.bench_chains --model bert-mini --rounds 12
    python -m tests.by_hand.bench_chains --parts reads --rounds 40

merges: over worker processes, a step in which one replica chooses the places of all (top-k, `star`), with a bucket a
variable and, to compare, all in one bucket. passes: the same processes, a model that draws random numbers in its own
way. reads: devices of one process, whose replicas wait for data `--wait` milliseconds each.

`in a row` is the engine as it was: the same functions, traced while nothing is taken out of TensorFlow's order. Both
are traced before the first round, and take turns in each (A/B/B/A), so that a slow minute of the machine meets both; a
round is the median of its steps. Shown are medians over rounds with their 95 % interval (the range, with under six),
and the median over rounds of the quotient of the two. Edges are control inputs, *between devices* a message each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Figure,
    ModelSpec,
    Node,
    Strategy,
    TopK,
    VariableStrategy,
    median_interval,
)
from tests.engine.worker_processes import REPOSITORY, quiet, worker_processes

PARTS = ("merges", "passes", "reads")
WAYS = ("in a row", "side by side")
TAKEN_OUT_IN = tuple(f"autosync.engine.{each}" for each in ("feed", "graph_function", "sync.one_speaks"))
KINDS = {"merges": "Merge", "passes": "StatefulPartitionedCall", "reads": "PyFunc"}
WIDTH, EXAMPLES = 512, 64


@dataclass(frozen=True)
class Case:
    """Something to call, traced in both ways."""

    name: str
    kind: str
    graphs: dict[str, Any]
    calls: dict[str, Callable[[], Any]]


@contextmanager
def _traced_in(way: str) -> Iterator[None]:
    """In the block, functions are traced as `way` says."""
    patches = [patch(f"{each}.run_independently", lambda _: None) for each in TAKEN_OUT_IN if way == "in a row"]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def _cluster(workers: int) -> ClusterSpec:
    """One machine; the links do not matter here, no time is predicted."""
    rate, latency = Figure(10.0, "assumed"), Figure(50.0, "assumed")
    return ClusterSpec.star((Node("node0", "127.0.0.1", 2.0, workers=workers),), rate, latency, rate, latency)


def _over_servers(part: str, model: str, addresses: Sequence[str]) -> list[Case]:
    from autosync.engine.capture.capturing import capture
    from autosync.engine.placement import Placement
    from autosync.engine.servers import connect
    from autosync.engine.step.realize import Session
    from autosync.engine.zoo import build_task

    captured = capture(build_task(model) if part == "merges" else _noisy())
    connect(addresses)
    cluster = _cluster(len(addresses))
    session = Session(captured, cluster, Placement.on_workers(cluster))
    ways: dict[str, Callable[[int], AllReduce]] = {
        "merges, a bucket a variable": lambda number: AllReduce(number, compressor=TopK(0.01, "star")),
        "merges, one bucket": lambda _: AllReduce(0, compressor=TopK(0.01, "star")),
    }
    if part == "passes":
        ways = {"passes, one ring": lambda _: AllReduce(0)}
    return [_of_steps(name, KINDS[part], session, _strategy(session.model, cluster, way)) for name, way in ways.items()]


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Callable[[int], AllReduce]) -> Strategy:
    variables = tuple(VariableStrategy(each.name, (decide(number),)) for number, each in enumerate(model.variables))
    return Strategy(tuple(str(each) for each in cluster.replica_devices), variables)


def _of_steps(name: str, kind: str, session: Any, strategy: Strategy) -> Case:
    steps, graphs = {}, {}
    for way in WAYS:
        steps[way] = session.realize(strategy)
        with _traced_in(way):
            graphs[way] = steps[way]._own_batches.get_concrete_function().graph
    return Case(name, kind, graphs, dict(steps))


def _noisy() -> Any:
    import keras
    import tensorflow as tf

    from autosync.engine.capture.task import TrainingTask

    features = keras.Input(batch_shape=(EXAMPLES, WIDTH))
    each = keras.layers.Lambda(lambda x: x + tf.random.normal([EXAMPLES, WIDTH]))(features)
    for _ in range(4):
        each = keras.layers.Dense(WIDTH, activation="relu")(each)
    return TrainingTask(
        "noisy",
        keras.Model(features, each),
        lambda _, outputs: tf.reduce_mean(outputs**2),
        keras.optimizers.SGD(0.01),
        EXAMPLES,
        lambda seed: (tf.random.stateless_normal([EXAMPLES, WIDTH], seed), tf.zeros([EXAMPLES])),
    )


def _of_reads(workers: int, wait_seconds: float) -> list[Case]:
    from autosync.engine.servers import use_logical_devices
    from autosync.engine.training.feed import Feed, offered

    use_logical_devices(workers)

    def read() -> list[Any]:
        time.sleep(wait_seconds)
        return [np.int64(1), np.zeros((1, WIDTH), np.float32)]

    tokens = [offered(read) for _ in range(workers)]
    feeds, graphs = {}, {}
    for way in WAYS:
        with _traced_in(way):
            feed = Feed([f"/CPU:{number}" for number in range(workers)], tokens, [((WIDTH,), "float32")])
            graphs[way] = feed._function.get_concrete_function().graph
        feeds[way] = lambda feed=feed, _kept=read: feed.next()
    return [Case(f"reads of {1e3 * wait_seconds:g} ms each", KINDS["reads"], graphs, dict(feeds))]


def _time(case: Case, rounds: int, steps: int) -> dict[str, list[float]]:
    """The median of seconds in each round, by the way the case was traced."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS if number % 2 else reversed(WAYS):
            times = [time.perf_counter()]
            for _ in range(steps):
                case.calls[way]()
                times.append(time.perf_counter())
            if number:  # the round before the first makes whatever a first call makes
                found[way].append(float(np.median(np.diff(times))))
    return found


def _edges(graph: Any, kind: str) -> str:
    operations = [each for each in graph.get_operations() if each.type == kind]
    pairs = [(each, before) for each in operations for before in each.control_inputs]
    between = sum(each.device != before.device for each, before in pairs)
    return f"{len(operations)} {kind}, {len(pairs)} edges, {between} between devices"


def _table(case: Case, found: dict[str, list[float]]) -> str:
    lines = [case.name]
    for way in WAYS:
        milliseconds = _median([1e3 * each for each in found[way]], "ms")
        lines.append(f"  {way:<14}{milliseconds:<32}{_edges(case.graphs[way], case.kind)}")
    quotients = [before / after for before, after in zip(*(found[way] for way in WAYS), strict=True)]
    return "\n".join([*lines, f"  {'quotient':<14}{_median(quotients, 'x')}"])


def _median(values: Sequence[float], unit: str) -> str:
    low, high = median_interval(values)
    return f"{np.median(values):.3g} [{low:.3g}, {high:.3g}] {unit}"


def _measure(options: argparse.Namespace) -> None:
    """Runs in a process of its own for each part: a process connects once, and devices are split before all else."""
    from autosync.engine.loading import load_tensorflow

    load_tensorflow()
    part = options.child
    if part == "reads":
        cases = _of_reads(options.workers, options.wait / 1e3)
    else:
        cases = _over_servers(part, options.model, options.addresses)
    for case in cases:
        print(_table(case, _time(case, options.rounds, options.steps)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-mini")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=10, help="steps, or reads, of each way in a round")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--wait", type=float, default=20.0, help="milliseconds that a replica waits for its data")
    parser.add_argument("--child", choices=PARTS, help=argparse.SUPPRESS)  # this very program, for one part
    parser.add_argument("--addresses", nargs="+", default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _measure(options)
        return
    command = [sys.executable, "-m", "tests.by_hand.bench_chains", *sys.argv[1:], "--child"]
    # Each read that waits holds a thread.
    environment = quiet() | {"TF_NUM_INTEROP_THREADS": str(options.workers + 1)}
    for part in options.parts:
        with worker_processes(0 if part == "reads" else options.workers) as addresses:
            last = ["--addresses", *addresses] if addresses else []
            done = subprocess.run([*command, part, *last], cwd=REPOSITORY, env=environment, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()

"""The cost of TensorFlow's automatic control dependencies where they are unnecessary, in graphs and in seconds.

    python -m studies.by_hand.bench_chains --model bert-mini --rounds 12
    python -m studies.by_hand.bench_chains --parts reads --rounds 40

There are three parts. merges: over worker processes, a step where one replica chooses the indices for all replicas
(top-k, `star`), with one bucket per variable and, for comparison, a single bucket. passes: the same processes with a
model that draws random numbers. reads: devices of one process, whose replicas each wait `--wait` milliseconds for data.

`in a row` is the earlier engine: the same functions, traced with all of TensorFlow's automatic control dependencies.
Both ways are traced before the first round and alternate in each round (A/B/B/A), so that slow periods of the machine
affect both. A round is the median of its steps. The output has medians over rounds with their 95 % interval (the range,
with under six), and the median over rounds of the quotient of the two ways. Edges are control inputs; an edge *between
devices* is a message.
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
INDEPENDENT_IN = tuple(f"autosync.engine.{name}" for name in ("feed", "graph_function", "sync.one_speaks"))
KINDS = {"merges": "Merge", "passes": "StatefulPartitionedCall", "reads": "PyFunc"}
WIDTH, EXAMPLES = 512, 64


@dataclass(frozen=True)
class ChainCase:
    """Functions to call, traced in both ways."""

    name: str
    kind: str
    graphs: dict[str, Any]
    calls: dict[str, Callable[[], Any]]


@contextmanager
def _trace_as(way: str) -> Iterator[None]:
    """Trace functions in the block in the given way."""
    patches = [patch(f"{module}.run_independently", lambda _: None) for module in INDEPENDENT_IN if way == "in a row"]
    for patched in patches:
        patched.start()
    try:
        yield
    finally:
        for patched in patches:
            patched.stop()


def _cluster(workers: int) -> ClusterSpec:
    """Return a cluster of one machine; its links are irrelevant because no time is predicted."""
    rate, latency = Figure(10.0, "assumed"), Figure(50.0, "assumed")
    return ClusterSpec.star((Node("node0", "127.0.0.1", 2.0, workers=workers),), rate, latency, rate, latency)


def _over_servers(part: str, model: str, addresses: Sequence[str]) -> list[ChainCase]:
    from autosync.engine.tensorflow.capture.capturing import capture
    from autosync.engine.tensorflow.placement import Placement
    from autosync.engine.tensorflow.servers import connect
    from autosync.engine.tensorflow.step.session import TensorFlowSession
    from autosync.zoo import build_task

    captured = capture(build_task(model) if part == "merges" else _noisy())
    connect(addresses)
    cluster = _cluster(len(addresses))
    session = TensorFlowSession(captured, cluster, Placement.on_workers(cluster))
    ways: dict[str, Callable[[int], AllReduce]] = {
        "merges, a bucket a variable": lambda number: AllReduce(number, compressor=TopK(0.01, "star")),
        "merges, one bucket": lambda _: AllReduce(0, compressor=TopK(0.01, "star")),
    }
    if part == "passes":
        ways = {"passes, one ring": lambda _: AllReduce(0)}
    return [_of_steps(name, KINDS[part], session, _strategy(session.model, cluster, way)) for name, way in ways.items()]


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Callable[[int], AllReduce]) -> Strategy:
    variables = tuple(
        VariableStrategy(variable.name, (decide(number),)) for number, variable in enumerate(model.variables)
    )
    return Strategy(tuple(str(device) for device in cluster.replica_devices), variables)


def _of_steps(name: str, kind: str, session: Any, strategy: Strategy) -> ChainCase:
    steps, graphs = {}, {}
    for way in WAYS:
        steps[way] = session.realize(strategy)
        with _trace_as(way):
            graphs[way] = steps[way]._own_batches.get_concrete_function().graph
    return ChainCase(name, kind, graphs, dict(steps))


def _noisy() -> Any:
    import keras
    import tensorflow as tf

    from autosync.engine.tensorflow.capture.task import TrainingTask

    features = keras.Input(batch_shape=(EXAMPLES, WIDTH))
    layer = keras.layers.Lambda(lambda x: x + tf.random.normal([EXAMPLES, WIDTH]))(features)
    for _ in range(4):
        layer = keras.layers.Dense(WIDTH, activation="relu")(layer)
    return TrainingTask(
        "noisy",
        keras.Model(features, layer),
        lambda _, outputs: tf.reduce_mean(outputs**2),
        keras.optimizers.SGD(0.01),
        EXAMPLES,
        lambda seed: (tf.random.stateless_normal([EXAMPLES, WIDTH], seed), tf.zeros([EXAMPLES])),
    )


def _of_reads(workers: int, wait_seconds: float) -> list[ChainCase]:
    from autosync.engine.tensorflow.servers import use_logical_devices
    from autosync.engine.tensorflow.training.feed import Feed, offer_function

    use_logical_devices(workers)

    def read() -> list[Any]:
        time.sleep(wait_seconds)
        return [np.int64(1), np.zeros((1, WIDTH), np.float32)]

    tokens = [offer_function(read) for _ in range(workers)]
    feeds, graphs = {}, {}
    for way in WAYS:
        with _trace_as(way):
            feed = Feed([f"/CPU:{number}" for number in range(workers)], tokens, [((WIDTH,), "float32")])
            graphs[way] = feed._function.get_concrete_function().graph
        feeds[way] = lambda feed=feed, _kept=read: feed.next()
    return [ChainCase(f"reads of {1e3 * wait_seconds:g} ms each", KINDS["reads"], graphs, dict(feeds))]


def _time(case: ChainCase, rounds: int, steps: int) -> dict[str, list[float]]:
    """Return the median seconds of each round, by the way of tracing."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS if number % 2 else reversed(WAYS):
            times = [time.perf_counter()]
            for _ in range(steps):
                case.calls[way]()
                times.append(time.perf_counter())
            if number:  # round 0 is a warm-up
                seconds[way].append(float(np.median(np.diff(times))))
    return seconds


def _edges(graph: Any, kind: str) -> str:
    operations = [operation for operation in graph.get_operations() if operation.type == kind]
    pairs = [(operation, before) for operation in operations for before in operation.control_inputs]
    between = sum(operation.device != before.device for operation, before in pairs)
    return f"{len(operations)} {kind}, {len(pairs)} edges, {between} between devices"


def _table(case: ChainCase, seconds: dict[str, list[float]]) -> str:
    lines = [case.name]
    for way in WAYS:
        milliseconds = _median([1e3 * value for value in seconds[way]], "ms")
        lines.append(f"  {way:<14}{milliseconds:<32}{_edges(case.graphs[way], case.kind)}")
    quotients = [before / after for before, after in zip(*(seconds[way] for way in WAYS), strict=True)]
    return "\n".join([*lines, f"  {'quotient':<14}{_median(quotients, 'x')}"])


def _median(values: Sequence[float], unit: str) -> str:
    low, high = median_interval(values)
    return f"{np.median(values):.3g} [{low:.3g}, {high:.3g}] {unit}"


def _measure(options: argparse.Namespace) -> None:
    """Measure one part. Each part needs its own process, because a process connects once and splits devices first."""
    from autosync.engine.tensorflow.loading import load_tensorflow

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
    parser.add_argument("--steps", type=int, default=10, help="steps or reads of each way in a round")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--wait", type=float, default=20.0, help="milliseconds that a replica waits for its data")
    parser.add_argument(
        "--child", choices=PARTS, help=argparse.SUPPRESS
    )  # this program in a child process, for one part
    parser.add_argument("--addresses", nargs="+", default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _measure(options)
        return
    command = [sys.executable, "-m", "studies.by_hand.bench_chains", *sys.argv[1:], "--child"]
    # A waiting read occupies a thread.
    environment = quiet() | {"TF_NUM_INTEROP_THREADS": str(options.workers + 1)}
    for part in options.parts:
        with worker_processes(0 if part == "reads" else options.workers) as addresses:
            last = ["--addresses", *addresses] if addresses else []
            done = subprocess.run([*command, part, *last], cwd=REPOSITORY, env=environment, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()

"""Measures and draws the overlap of communication with the backward pass, from traces of steps on an emulated cluster.

    python -m studies.by_hand.bench_overlap --cluster 4x200mbit --model vgg-mini --baseline all_reduce_25mb \\
        --out overlap

Needs root. TensorFlow's profiler times operations in every worker process, and the bytes at every host's interface are
read every 2 ms. The table has, for each worker, the forward and the backward pass (from the first to the last
operation), and the share of a step's sent bytes that left during the backward pass. Without overlap this share is zero
for an all-reduce, because no byte leaves before the last gradient is ready. Writes OUT.json (a Chrome trace; open it in
Perfetto) and OUT.svg.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from autosync.baselines import BASELINES
from studies.by_hand.peers.engine import start_engine
from studies.by_hand.peers.links import interface_bytes, star
from studies.by_hand.peers.timeline import chrome_trace, draw
from studies.by_hand.peers.tracing import Operation
from trials.emulate import Emulated, emulated

SAMPLE_SECONDS = 2e-3
FIRST_PROFILER_PORT = 17801


@dataclass(frozen=True)
class PassTrace:
    """One worker's passes in one step."""

    worker: int
    forward: tuple[int, int]
    """Start and end in ns since 1970."""
    backward: tuple[int, int]
    """Start and end in ns since 1970."""
    step_ns: int
    sent_bytes: int
    """Bytes sent during the step."""
    sent_in_backward: int
    """Bytes sent during the backward pass."""


@click.command()
@click.option("--cluster", default="4x200mbit", show_default=True)
@click.option("--model", default="vgg-mini", show_default=True)
@click.option("--baseline", default="all_reduce_25mb", show_default=True, type=click.Choice(list(BASELINES)))
@click.option("--cores", type=float, help="Cores that each host may use, to make compute take longer.")
@click.option("--steps", default=6, show_default=True)
@click.option("--out", type=Path, default=Path("overlap"), show_default=True)
def main(cluster: str, model: str, baseline: str, cores: float | None, steps: int, out: Path) -> None:
    """Trace a few steps and draw them."""
    spec = star(cluster)
    if cores:
        spec = replace(spec, nodes=tuple(replace(node, cores=cores) for node in spec.nodes))
    with emulated("overlap", spec, start_ray=False) as made, start_engine(made) as engine:
        engine.load(model)
        engine.realize(BASELINES[baseline](engine.model, spec))
        engine.run(warmup=3, steps=0)
        with _sample_links(made) as samples, tempfile.TemporaryDirectory() as folder:
            ports = [FIRST_PROFILER_PORT + index for index in range(len(made.hosts))]
            operations, times = engine.trace([host.address for host in made.hosts], ports, folder, steps)
    passes = [trace for worker, of in enumerate(operations) for trace in _passes(worker, of, times, samples)]
    out.with_suffix(".json").write_text(json.dumps(chrome_trace(operations, samples)))
    out.with_suffix(".svg").write_text(
        draw(f"{model}, {baseline}, {cluster}", operations, samples, times[len(times) // 2])
    )
    for line in _table(passes):
        print(line)


@contextmanager
def _sample_links(made: Emulated) -> Iterator[list[tuple[int, list[tuple[int, int]]]]]:
    """Sample (ns since 1970, bytes received and sent by each host so far) while the block runs."""
    samples: list[tuple[int, list[tuple[int, int]]]] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append((time.time_ns(), interface_bytes(made.hosts)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _passes(
    worker: int, operations: Sequence[Operation], steps: Sequence[tuple[int, int]], samples: Sequence[Any]
) -> Iterator[PassTrace]:
    for begin, end in steps:
        inside = [operation for operation in operations if begin <= operation[1] <= end]
        backward = [operation for operation in inside if "/gradient_tape/" in operation[0]]
        forward = [operation for operation in inside if "/forward/" in operation[0] and operation not in backward]
        if not forward or not backward:
            continue
        times = backward[0][1], max(operation[2] for operation in backward)
        yield PassTrace(
            worker,
            (forward[0][1], times[0]),
            times,
            end - begin,
            _sent(samples, worker, begin, end),
            _sent(samples, worker, *times),
        )


def _sent(samples: Sequence[Any], worker: int, begin: int, end: int) -> int:
    inside = [of_hosts[worker][1] for at, of_hosts in samples if begin <= at <= end]
    return inside[-1] - inside[0] if len(inside) > 1 else 0


def _table(passes: Sequence[PassTrace]) -> Iterator[str]:
    yield "worker  steps  forward  backward  step (ms, medians)   sent a step   of it during the backward pass"
    for worker in sorted({trace.worker for trace in passes}):
        traces = [trace for trace in passes if trace.worker == worker]
        times = [
            statistics.median((end - begin) / 1e6 for begin, end in of_steps)
            for of_steps in ([trace.forward for trace in traces], [trace.backward for trace in traces])
        ]
        times.append(statistics.median(trace.step_ns / 1e6 for trace in traces))
        sent = statistics.median(trace.sent_bytes for trace in traces)
        share = statistics.median(trace.sent_in_backward / max(trace.sent_bytes, 1) for trace in traces)
        yield (
            f"{worker:6} {len(traces):6} {times[0]:8.1f} {times[1]:9.1f} {times[2]:6.1f} "
            f"{sent / 1e6:24.2f} MB {share:16.0%}"
        )


if __name__ == "__main__":
    main()

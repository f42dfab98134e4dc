"""Does communication overlap the backward pass? A trace of real steps over an emulated cluster, drawn.

    python -m tests.by_hand.bench_overlap --cluster 4x200mbit --model vgg-mini --baseline all_reduce_25mb --out overlap

Needs root. Operations are timed by TensorFlow's profiler in every worker process, bytes are read at every host's
interface each 2 ms. Of each worker and step: forward and backward pass (the first to the last operation of each), and
the share of the step's sent bytes that left during the backward pass. Without overlap it is zero for an all-reduce: no
byte would leave before the last gradient is there. Writes OUT.json (Chrome trace; open it in Perfetto) and OUT.svg.
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
from tests.by_hand.peers.engine import engine_on
from tests.by_hand.peers.links import carried, star
from tests.by_hand.peers.timeline import chrome_trace, drawn
from tests.by_hand.peers.tracing import Operation
from trials.emulate import Emulated, emulated

SAMPLE_SECONDS = 2e-3
FIRST_PROFILER_PORT = 17801


@dataclass(frozen=True)
class Pass:
    """One worker's forward and backward pass of one step, ns since 1970; the step's ns, and what it sent in it."""

    worker: int
    forward: tuple[int, int]
    backward: tuple[int, int]
    step_ns: int
    sent_bytes: int
    sent_in_backward: int


@click.command()
@click.option("--cluster", default="4x200mbit", show_default=True)
@click.option("--model", default="vgg-mini", show_default=True)
@click.option("--baseline", default="all_reduce_25mb", show_default=True, type=click.Choice(list(BASELINES)))
@click.option("--cores", type=float, help="Cores each host may use, so that compute has time of its own.")
@click.option("--steps", default=6, show_default=True)
@click.option("--out", type=Path, default=Path("overlap"), show_default=True)
def main(cluster: str, model: str, baseline: str, cores: float | None, steps: int, out: Path) -> None:
    """Trace a few steps and draw them."""
    spec = star(cluster)
    if cores:
        spec = replace(spec, nodes=tuple(replace(node, cores=cores) for node in spec.nodes))
    with emulated("overlap", spec, start_ray=False) as made, engine_on(made) as engine:
        engine.load(model)
        engine.realize(BASELINES[baseline](engine.model, spec))
        engine.run(warmup=3, steps=0)
        with _sampled(made) as samples, tempfile.TemporaryDirectory() as folder:
            ports = [FIRST_PROFILER_PORT + index for index in range(len(made.hosts))]
            operations, times = engine.traced([host.address for host in made.hosts], ports, folder, steps)
    passes = [each for worker, of in enumerate(operations) for each in _passes(worker, of, times, samples)]
    out.with_suffix(".json").write_text(json.dumps(chrome_trace(operations, samples)))
    out.with_suffix(".svg").write_text(
        drawn(f"{model}, {baseline}, {cluster}", operations, samples, times[len(times) // 2])
    )
    for line in _table(passes):
        print(line)


@contextmanager
def _sampled(made: Emulated) -> Iterator[list[tuple[int, list[tuple[int, int]]]]]:
    """(ns since 1970, bytes received and sent by each host so far), taken all the time while the block runs."""
    samples: list[tuple[int, list[tuple[int, int]]]] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append((time.time_ns(), carried(made.hosts)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _passes(
    worker: int, operations: Sequence[Operation], steps: Sequence[tuple[int, int]], samples: Sequence[Any]
) -> Iterator[Pass]:
    for begin, end in steps:
        inside = [each for each in operations if begin <= each[1] <= end]
        backward = [each for each in inside if "/gradient_tape/" in each[0]]
        forward = [each for each in inside if "/forward/" in each[0] and each not in backward]
        if not forward or not backward:
            continue
        times = backward[0][1], max(each[2] for each in backward)
        yield Pass(
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


def _table(passes: Sequence[Pass]) -> Iterator[str]:
    yield "worker  steps  forward  backward  step (ms, medians)   sent a step   of it during the backward pass"
    for worker in sorted({each.worker for each in passes}):
        own = [each for each in passes if each.worker == worker]
        times = [
            statistics.median((end - begin) / 1e6 for begin, end in of_steps)
            for of_steps in ([each.forward for each in own], [each.backward for each in own])
        ]
        times.append(statistics.median(each.step_ns / 1e6 for each in own))
        sent = statistics.median(each.sent_bytes for each in own)
        share = statistics.median(each.sent_in_backward / max(each.sent_bytes, 1) for each in own)
        yield (
            f"{worker:6} {len(own):6} {times[0]:8.1f} {times[1]:9.1f} {times[2]:6.1f} "
            f"{sent / 1e6:24.2f} MB {share:16.0%}"
        )


if __name__ == "__main__":
    main()

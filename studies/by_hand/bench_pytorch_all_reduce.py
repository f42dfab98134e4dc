"""An all-reduce alone by the PyTorch engine compared with gloo's, on an emulated cluster, in turns.

    python -m studies.by_hand.bench_pytorch_all_reduce --cluster topologies/two_racks.yaml

Needs root. One process per node all-reduces arrays of each size by every algorithm in turns: gloo's own all-reduce, and
the programs of the PyTorch engine over its sockets. Prints medians of rank 0 with 95 % intervals, their ratios to
gloo's, and their ratios to the lower bound of any all-reduce on these links (`all_reduce_bound_seconds`).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist

from autosync.cost import all_reduce_bound_seconds
from autosync.engine.pytorch.exchange import ProgramExchange
from autosync.engine.pytorch.sockets import connect_sockets, own_address
from autosync.engine.pytorch.transport import RankTransport
from autosync.layout.all_reduce import layout_of
from autosync.layout.moves import Span
from autosync.layout.span_program import programs_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, median_interval
from autosync.terminal import say
from studies.by_hand.torch_hosts import PLAN, output_of_ranks
from trials.cluster.file import read_cluster_file

MODULE = "studies.by_hand.bench_pytorch_all_reduce"
ITEM_BYTES = 4
WAIT_SECONDS = 60.0


@click.command()
@click.option("--cluster", "file", type=Path, default=Path("topologies/two_racks.yaml"), show_default=True)
@click.option("--algorithm", "algorithms", multiple=True, default=("ring", "rabenseifner", "fitted"), show_default=True)
@click.option("--megabytes", "sizes", multiple=True, type=float, default=(1.0, 3.5, 8.0), show_default=True)
@click.option("--rounds", default=15, show_default=True)
def main(file: Path, algorithms: tuple[str, ...], sizes: tuple[float, ...], rounds: int) -> None:
    """Time all algorithms in turns, and print a table."""
    cluster = read_cluster_file(file)
    plan = {"algorithms": algorithms, "rounds": rounds, "bytes": [round(1e6 * size) for size in sizes]}
    seconds: dict[str, dict[str, list[float]]] = output_of_ranks(
        cluster, "studies.by_hand.bench_pytorch_all_reduce", plan
    )
    replicas = [str(device) for device in cluster.replica_devices]
    for size, by_algorithm in seconds.items():
        bound = all_reduce_bound_seconds(cluster, replicas, float(size))
        gloo = statistics.median(by_algorithm["gloo"])
        say(f"{int(size) / 1e6:g} MB" + ("" if bound is None else f", lower bound {1e3 * bound:.1f} ms"))
        for name, times in by_algorithm.items():
            median, (least, most) = statistics.median(times), median_interval(times)
            over_bound = "" if bound is None else f", {median / bound:.2f} of the bound"
            say(
                f"  {name:14} {1e3 * median:7.1f} ms [{1e3 * least:.1f}, {1e3 * most:.1f}], "
                f"{median / gloo:.3f} of gloo's{over_bound}"
            )


def run_rank(plan: dict[str, Any]) -> None:
    """All-reduce in turns as one rank; rank 0 prints the seconds as JSON, by bytes and algorithm."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds: dict[int, dict[str, list[float]]] = {}
    for size in plan["bytes"]:
        ways = dict(_ways(plan["algorithms"], size // ITEM_BYTES, ClusterSpec.from_json(plan["cluster"])))
        for number in range(1 + plan["rounds"]):
            for name in ways if number % 2 else reversed(ways):
                dist.barrier()
                began = time.perf_counter()
                ways[name]()
                if number:  # the first round is a warm-up
                    seconds.setdefault(size, {}).setdefault(name, []).append(time.perf_counter() - began)
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(seconds))
    dist.barrier()


def _ways(algorithms: list[str], elements: int, cluster: ClusterSpec) -> Iterator[tuple[str, Callable[[], None]]]:
    """By name, functions that all-reduce an array of this many elements."""
    rank, size = dist.get_rank(), dist.get_world_size()
    array = torch.full((elements,), 1.0)
    yield "gloo", lambda: dist.all_reduce(array)

    def gather(text: str) -> list[str]:
        texts = [""] * size
        dist.all_gather_object(texts, text)
        return texts

    transport = connect_sockets(rank, size, own_address(os.environ["MASTER_ADDR"]), gather)
    topology = Topology.of(cluster)
    for name in algorithms:
        moves_of = layout_of(name).moves
        assert moves_of is not None, name
        program = programs_of(moves_of(topology, elements, ITEM_BYTES), size, elements)[rank]
        yield (
            name,
            RepeatedExchange(transport, ProgramExchange(transport, program, tuple(range(size)), array, array, keep)),
        )


def keep(span: Span) -> None:
    """Leave a sum as it is."""
    del span


class RepeatedExchange:
    """Calls of an exchange, each of which waits for its end."""

    def __init__(self, transport: RankTransport, exchange: ProgramExchange) -> None:
        self._transport = transport
        self._exchange = exchange
        self._steps = 0
        self._ended = 0

    def __call__(self) -> None:
        self._steps += 1
        self._transport.call(lambda: self._exchange.start(self._steps, 0.0, self._end))
        self._transport.wait_for(lambda: self._ended == self._steps, WAIT_SECONDS)

    def _end(self) -> None:
        self._ended += 1
        self._transport.notify()


if __name__ == "__main__":
    if PLAN in os.environ:
        run_rank(json.loads(os.environ[PLAN]))
    else:
        main()

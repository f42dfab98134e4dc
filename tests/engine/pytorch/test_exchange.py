"""Exchanges have the program's result, to the bit, in every order of arrival of the messages."""

from __future__ import annotations

import random
import threading

import pytest
import torch

from autosync.engine.pytorch.exchange import ProgramExchange
from autosync.engine.pytorch.local_transport import LocalTransport, local_group
from autosync.engine.pytorch.transport import Action, Tag
from autosync.layout.all_reduce import layout_of
from autosync.layout.moves import Span
from autosync.layout.span_program import programs_of
from autosync.layout.topology import Topology
from autosync.space import ALGORITHMS
from tests.architecture.source_tree import ROOT
from tests.cases import rack_cluster
from tests.engine.pytorch.ranks import on_all_ranks
from trials.cluster.file import read_cluster_file

ELEMENTS = 1003

CLUSTERS = {
    "racks": rack_cluster(),
    # Fitted messages come in pieces here, and the results of the first pieces before the sums of the last.
    "two racks": read_cluster_file(ROOT / "topologies" / "two_racks.yaml"),
}


class Shuffled:
    """A transport whose messages set out in an order drawn at random, as on links of different speed."""

    def __init__(self, transport: LocalTransport, seed: int) -> None:
        self._transport = transport
        self._rng = random.Random(seed)
        self._waiting: list[Action] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def send(self, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
        self._waiting.append(lambda: self._transport.send(peer, tag, data, priority, then))
        threading.Timer(self._rng.random() / 200, self._transport.call, [self._send_one]).start()

    def _send_one(self) -> None:
        self._waiting.pop(self._rng.randrange(len(self._waiting)))()


def exchanged(algorithm: str, place: str, seed: int, steps: int = 2, stops_halfway: bool = False) -> list[torch.Tensor]:
    """The results of all ranks. An exchange that stops halfway goes on once all ranks have stopped."""
    topology = Topology.of(CLUSTERS[place])
    moves_of = layout_of(algorithm).moves
    assert moves_of is not None
    programs = programs_of(moves_of(topology, ELEMENTS, 4), len(topology), ELEMENTS)
    group = local_group(len(topology))
    halfway = threading.Barrier(len(group))

    def run(rank: int) -> torch.Tensor:
        values = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(rank))
        transport = Shuffled(group[rank], seed * 10 + rank) if seed else group[rank]

        def finish(span: Span) -> None:
            values[span[0] : span[1]] /= len(group)

        ranks = range(len(group))
        exchange = ProgramExchange(transport, programs[rank], ranks, values, values, finish, stops_halfway)
        ended: list[int] = []

        def end() -> None:
            ended.append(1)
            group[rank].notify()

        for step in range(1, steps + 1):
            group[rank].call(lambda step=step: exchange.start(step, 0.0, end))
            group[rank].wait_for(lambda step=step: len(ended) == step, 10.0)
            if stops_halfway:
                halfway.wait(10.0)
                ended.pop()
                group[rank].call(lambda: exchange.release(0.0, end))
                group[rank].wait_for(lambda step=step: len(ended) == step, 10.0)
        return values

    results = on_all_ranks(len(group), run)
    for transport in group:
        transport.close()
    return results


@pytest.mark.parametrize("place", CLUSTERS)
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if layout_of(name).moves is not None])
def test_all_ranks_get_the_same_bits_in_every_run(algorithm: str, place: str) -> None:
    first, *others = exchanged(algorithm, place, seed=0)
    mean = sum(torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(rank)) for rank in range(4)) / 4
    assert torch.allclose(first, mean, atol=1e-6)
    assert all(torch.equal(first, other) for other in others)
    for seed in (1, 2):
        for stops_halfway in (False, True):
            results = exchanged(algorithm, place, seed, stops_halfway=stops_halfway)
            assert all(torch.equal(first, result) for result in results)

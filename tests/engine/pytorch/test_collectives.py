"""PyTorch's own all-reduce: the same means as by autosync's messages, over an address of one's own, and its faults."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from autosync.baselines import baselines_for
from autosync.engine.pytorch.collectives import GlooCollectives, connect_collectives
from autosync.engine.pytorch.distribution import model_of
from autosync.engine.pytorch.plan import plan
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.transport import TransportError
from tests.cases import local_cluster
from tests.engine.pytorch.models import batches, built, loss
from tests.engine.pytorch.ranks import are_equal, gathers, largest_difference, on_all_ranks, socket_group
from tests.engine.pytorch.test_parity import model, share_of

RANKS = 3


@pytest.fixture
def collectives() -> Iterator[list[GlooCollectives]]:
    shared = gathers(RANKS)
    group = on_all_ranks(RANKS, lambda rank: connect_collectives(rank, RANKS, "127.0.0.1", shared[rank]))
    yield group
    for member in group:
        member.close()


def test_sums_are_those_of_all_ranks(collectives: list[GlooCollectives]) -> None:
    def run(rank: int) -> float:
        array, ended, errors = torch.full((1000,), float(rank + 1)), threading.Event(), list[Exception | None]()
        collectives[rank].all_reduce(array, lambda error: (errors.append(error), ended.set())[1])
        assert ended.wait(20)
        assert errors == [None]
        return float(array.sum())

    assert on_all_ranks(RANKS, run) == [6000.0] * RANKS


def test_replicas_with_ddps_buckets_train_like_one_process(collectives: list[GlooCollectives]) -> None:
    """The model's gradients would fill a single bucket; here, two variables fill each bucket."""
    module, cluster = built("dense"), local_cluster(RANKS)
    strategy = baselines_for("pytorch")["ddp"](model(module), cluster)
    decisions = tuple(
        replace(decision, shards=tuple(replace(shard, group=number // 2) for shard in decision.shards))
        for number, decision in enumerate(strategy.variables)
    )
    strategy = replace(strategy, variables=decisions)
    transports = socket_group(RANKS)
    modules = [copy.deepcopy(module) for _ in transports]

    def run(rank: int) -> None:
        transports[rank].collectives = collectives[rank]
        synchronizer = GradientSynchronizer(
            dict(modules[rank].named_parameters()),
            lambda order: plan(strategy, model_of(modules[rank], order), cluster),
            transports[rank],
            range(RANKS),
        )
        optimizer = torch.optim.SGD(modules[rank].parameters(), lr=0.1, momentum=0.9)
        for examples in batches(RANKS):
            optimizer.zero_grad()
            loss(modules[rank], share_of(examples, rank)).backward()
            optimizer.step()
        synchronizer.remove_hooks()

    on_all_ranks(RANKS, run)
    for transport in transports:
        transport.close()
    reference = copy.deepcopy(module)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    for examples in batches(RANKS):
        optimizer.zero_grad()
        loss(reference, examples).backward()
        optimizer.step()
    assert largest_difference(modules[0], reference) <= 1e-10
    assert all(are_equal(replica, modules[0]) for replica in modules)


def test_ranks_that_cannot_connect_are_a_sentence() -> None:
    with pytest.raises(TransportError, match="Rank 0 cannot connect to the others through gloo"):
        connect_collectives(0, 2, "192.0.2.1", lambda text: [text, text])

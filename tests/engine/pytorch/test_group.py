"""Exchanges over a process group: gloo's, and gloo in the place of NCCL, with the bits of the other transports."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from autosync.baselines import baselines_for
from autosync.engine.pytorch.connection import connect_transport, device_of, transport_for
from autosync.engine.pytorch.message_group import Parcel
from autosync.engine.pytorch.step_order import StepOrder
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.transport import TransportError
from autosync.errors import SpecError
from autosync.space import ALGORITHMS, PLACED_ALGORITHMS
from autosync.spec import AllReduce, ClusterSpec, ParameterServer, Strategy
from tests.engine.pytorch.models import MODELS, WIDE, batches, built, drawn, loss
from tests.engine.pytorch.ranks import GROUPS, are_equal, gloo_group, on_all_ranks, trained
from tests.engine.pytorch.test_parity import (
    CLUSTERS,
    OPTIMIZERS,
    check_parity,
    model,
    plain,
    share_of,
    strategy_for,
)

LAID_OUT = replace(WIDE, rules=(replace(WIDE.rules[0], algorithms=PLACED_ALGORITHMS),))
"""Without gloo's own all-reduce, which adds in another order than autosync's messages."""


def reduced_by(algorithm: str, module: nn.Module, cluster: ClusterSpec) -> Strategy:
    """Buckets of two variables, all-reduced by `algorithm`."""
    strategy = strategy_for("all_reduce_per_variable", module, cluster)
    decisions = tuple(
        replace(decision, shards=tuple(AllReduce(number // 2, algorithm) for _ in decision.shards))
        for number, decision in enumerate(strategy.variables)
    )
    return replace(strategy, variables=decisions)


def with_local_copies(strategy: Strategy) -> Strategy:
    def copied(shard: Any) -> Any:
        return replace(shard, local_copy=True) if isinstance(shard, ParameterServer) else shard

    decisions = (replace(decision, shards=tuple(map(copied, decision.shards))) for decision in strategy.variables)
    return replace(strategy, variables=tuple(decisions))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_algorithms_train_like_one_process(algorithm: str) -> None:
    module, cluster = built("tied"), CLUSTERS["racks"]
    check_parity(module, reduced_by(algorithm, module, cluster), cluster, OPTIMIZERS["adam"], group="gloo")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("local_copy", [False, True])
def test_servers_train_like_one_process(name: str, local_copy: bool) -> None:
    """`byteps` partitions variables; a table with sparse gradients has its rows on servers."""
    module, cluster = built(name), CLUSTERS["two nodes of two"]
    strategy = strategy_for("partitioned_parameter_server" if name == "sparse" else "byteps", module, cluster)
    if local_copy:
        strategy = with_local_copies(strategy)
    check_parity(module, strategy, cluster, OPTIMIZERS["momentum"], group="gloo")


@pytest.mark.parametrize("place", ["racks", "two nodes of two"])
def test_rows_gathered_through_relays_train_like_one_process(place: str) -> None:
    module, cluster = built("sparse"), CLUSTERS[place]
    check_parity(module, reduced_by("ring", module, cluster), cluster, OPTIMIZERS["momentum"], group="gloo")


@pytest.mark.parametrize("seed", range(8))
def test_all_transports_give_the_same_bits(seed: int) -> None:
    rng = random.Random(seed)
    module, cluster = built("sparse") if seed % 4 == 3 else drawn(seed), CLUSTERS[rng.choice(sorted(CLUSTERS))]
    strategy = LAID_OUT.bind(model(module), cluster).sample(rng)
    loop = plain(len(strategy.replicas))
    first, *others = (trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop, group) for group in GROUPS)
    for replicas in others:
        assert all(are_equal(*pair) for pair in zip(replicas, first, strict=True))
    assert not are_equal(first[0], module), "nothing was trained"


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("baseline", ["ddp", "byteps", "partitioned_all_reduce"])
def test_holders_update_to_the_bits_of_sockets(baseline: str, overlaps: bool) -> None:
    """The buckets are made again after the first step, and so the ranks share the state of the optimizer."""
    module, cluster = built("tied"), CLUSTERS["racks"]
    strategy = baselines_for("pytorch")[baseline](model(module), cluster)
    first, *others = (
        trained(module, strategy, cluster, OPTIMIZERS["adam"], plain(4), group, "error", True, overlaps)
        for group in ("sockets", "gloo", "gloo as nccl")
    )
    for replicas in others:
        assert all(are_equal(*pair) for pair in zip(replicas, first, strict=True))
    assert not are_equal(first[0], module), "nothing was trained"


def test_ddps_buckets_get_the_bits_of_gloo_beside_sockets() -> None:
    module, cluster = built("dense"), CLUSTERS["three nodes"]
    strategy = baselines_for("pytorch")["ddp"](model(module), cluster)
    beside, over = (
        trained(module, strategy, cluster, OPTIMIZERS["adam"], plain(3), group)
        for group in ("sockets beside gloo", "gloo")
    )
    assert all(are_equal(*pair) for pair in zip(beside, over, strict=True))


def test_buckets_filled_in_another_order_on_each_rank_are_exchanged_in_one_order() -> None:
    """Gradients that no backward pass reaches fill their buckets at the end; here, others on each rank."""
    cluster = CLUSTERS["one node"]
    module = nn.ModuleList(nn.Linear(3, 1) for _ in range(3)).double()

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer, optimizer
        assert isinstance(module, nn.ModuleList)
        for _ in range(2):
            module.zero_grad()
            module[rank](torch.full((1, 3), float(rank + 1), dtype=torch.float64)).sum().backward()

    strategy = strategy_for("all_reduce_per_variable", module, cluster)
    for replica in trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, "gloo", unused="zeros"):
        assert isinstance(replica, nn.ModuleList)
        assert [float(layer.weight.grad[0, 0]) * 3 for layer in replica] == pytest.approx([1.0, 2.0, 3.0])


def test_an_order_begins_each_exchange_once_a_step() -> None:
    order, begun = StepOrder(), list[str]()
    numbers = [order.number() for _ in range(3)]
    for step in ("first", "second"):
        for number in (2, 0, 1):
            order.offer(numbers[number], lambda number=number, step=step: begun.append(f"{step} {number}"))
    assert begun == [f"{step} {number}" for step in ("first", "second") for number in range(3)]


def test_counts_and_empty_messages() -> None:
    transports = gloo_group(3)
    groups = [transport.group for transport in transports]
    assert on_all_ranks(3, lambda rank: groups[rank].gather_counts(10 * rank)) == [[0, 10, 20]] * 3

    def trade(rank: int) -> list[float]:
        arriving = torch.empty(rank)
        sends = [Parcel((rank + 1) % 3, torch.full(((rank + 1) % 3,), float(rank)))]
        groups[rank].trade(sends, [Parcel((rank - 1) % 3, arriving)])
        return arriving.tolist()

    assert on_all_ranks(3, trade) == [[], [0.0], [1.0, 1.0]]
    texts = [b"", b"one", b"two rows"]
    assert on_all_ranks(3, lambda rank: transports[rank].share(texts[rank], 20.0)) == [texts] * 3
    for transport in transports:
        transport.close()


@pytest.mark.parametrize("leaves", ["a rank that closes", "a rank that waits too long"])
def test_a_lost_rank_ends_all_waits(leaves: str) -> None:
    """Rank 1 takes no part in the second step; ranks 0 and 2 wait for its messages."""
    module, cluster = built("dense"), CLUSTERS["three nodes"]
    strategy = reduced_by("ring", module, cluster)
    errors = dict[int, str]()

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del optimizer
        assert synchronizer is not None
        for step in range(2):
            if step and rank == 1 and leaves == "a rank that closes":
                time.sleep(0.3)
                synchronizer.undo()
                return
            if step and rank == 1:
                time.sleep(3.0)
            synchronizer._timeout = 1.0 if rank == 0 and leaves != "a rank that closes" else 60.0
            try:
                loss(module, share_of(batches(3)[0], rank)).backward()
            except TransportError as error:
                errors[rank] = str(error)

    began = time.monotonic()
    trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, "gloo")
    assert time.monotonic() - began < 30.0, "the ranks waited for gloo's own limit"
    if leaves == "a rank that closes":
        assert sorted(errors) == [0, 2]
    else:
        assert errors.pop(0).startswith("Rank 0 waited 1 seconds for gradients of the other ranks")
        assert sorted(errors) == [1, 2]
    for rank, error in errors.items():
        assert error.startswith(
            f"Rank {rank} can no longer synchronize gradients: another rank has probably ended or failed (gloo: "
        )


def test_transports_and_devices_that_do_not_fit_are_refused() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(SpecError, match=r"'0\.bias' is on cpu and parameter '1\.bias' on meta; .* on one device\."):
        device_of(dict(module.named_parameters()))
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    assert device_of(dict(module[0].named_parameters())) == cpu
    assert [transport_for(None, cpu), transport_for("gloo", cpu)] == ["sockets", "gloo"]
    with pytest.raises(SpecError, match="No transport is called 'mpi'; there are sockets, gloo, nccl"):
        transport_for("mpi", cpu)
    with pytest.raises(
        SpecError, match=r"'nccl' needs parameters on cuda, and they are on cpu; .* cpu: sockets, gloo\."
    ):
        transport_for("nccl", cpu)
    with pytest.raises(SpecError, match=r"'sockets' needs parameters on cpu, and they are on cuda:0; .* cuda: nccl\."):
        transport_for("sockets", gpu)
    with pytest.raises(SpecError, match=r"only if the parameters are on the CPU; leave out optimizer=\."):
        transport_for(None, gpu, holders_update=True)
    with pytest.raises(SpecError, match="they are on meta"):
        transport_for(None, torch.device("meta"))
    if not torch.distributed.is_nccl_available():
        with pytest.raises(SpecError, match="has no NCCL; install PyTorch with CUDA"):
            transport_for(None, gpu)


def test_nccl_warns_that_it_has_never_been_run_on_a_gpu() -> None:
    gpu, nowhere = torch.device("cuda", 0), "192.0.2.1"
    with (
        pytest.warns(UserWarning, match="over NCCL have never been run on a GPU"),
        pytest.raises(TransportError, match="Rank 0 cannot connect to the others through NCCL"),
    ):
        connect_transport("nccl", gpu, 0, 2, nowhere, lambda text: [text, text], 60.0, False)

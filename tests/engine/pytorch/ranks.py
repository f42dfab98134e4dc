"""Ranks as threads of one process, joined by a transport, each with a model of its own."""

from __future__ import annotations

import copy
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import nn

from autosync.engine.pytorch.collectives import connect_collectives, connect_gloo
from autosync.engine.pytorch.distribution import check_supported, model_of
from autosync.engine.pytorch.group_transport import GroupTransport
from autosync.engine.pytorch.local_transport import local_group
from autosync.engine.pytorch.message_group import MessageGroup
from autosync.engine.pytorch.plan import plan
from autosync.engine.pytorch.sockets import SocketTransport, connect_sockets
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.transport import RankLink, RankTransport, TransportError
from autosync.spec import ClusterSpec, Strategy
from tests.engine.pytorch.gloo_as_nccl import GlooAsNccl

Result = TypeVar("Result")

WAIT_SECONDS = 60.0


def on_all_ranks(size: int, act: Callable[[int], Result]) -> list[Result]:
    """The results of `act(rank)` on `size` threads at once.

    Raises the error of the lowest rank that failed, preferably one that is no consequence of another rank's error. If a
    rank hangs, the error shows where.
    """
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def run(rank: int) -> None:
        try:
            results[rank] = act(rank)
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    for rank, thread in enumerate(threads):
        if thread.is_alive():
            stack = traceback.format_stack(sys._current_frames()[thread.ident or 0])
            raise RuntimeError(f"Rank {rank} still runs after {WAIT_SECONDS:g} seconds:\n{''.join(stack)}")
    if errors:
        raise errors[min(errors, key=lambda rank: (isinstance(errors[rank], TransportError), rank))]
    return [results[rank] for rank in range(size)]


Gather = Callable[[str], Sequence[str]]


def gathers(size: int) -> list[Gather]:
    """For each rank, a function that shares a text with the other ranks, which are threads of this process."""
    texts: dict[int, list[str]] = {}
    turn, lock = threading.Barrier(size), threading.Lock()

    def gather_of(rank: int) -> Gather:
        calls = iter(range(100))

        def gather(text: str) -> Sequence[str]:
            call = next(calls)
            with lock:
                texts.setdefault(call, [""] * size)[rank] = text
            turn.wait(WAIT_SECONDS)
            return texts[call]

        return gather

    return [gather_of(rank) for rank in range(size)]


def socket_group(size: int) -> list[SocketTransport]:
    """The transports of ranks that are joined by TCP on the loopback address."""
    shared = gathers(size)
    return on_all_ranks(size, lambda rank: connect_sockets(rank, size, "127.0.0.1", shared[rank]))


def sockets_beside_gloo(size: int) -> list[SocketTransport]:
    """The transports of ranks that are joined by TCP, and by gloo for its own all-reduce."""
    transports, shared = socket_group(size), gathers(size)

    def connect(rank: int) -> None:
        transports[rank].collectives = connect_collectives(rank, size, "127.0.0.1", shared[rank])

    on_all_ranks(size, connect)
    return transports


def gloo_group(size: int, made_from: Callable[[Any], Any] = lambda backend: backend) -> list[GroupTransport]:
    """The transports of ranks whose process groups are `made_from` gloo's on the loopback address."""
    shared, device, limit = gathers(size), torch.device("cpu"), timedelta(seconds=WAIT_SECONDS)

    def connect(rank: int) -> GroupTransport:
        backend, store = connect_gloo(rank, size, "127.0.0.1", shared[rank], limit)
        return GroupTransport(rank, size, MessageGroup(made_from(backend), store, device), device)

    return on_all_ranks(size, connect)


TAGGED: dict[str, Callable[[int], Sequence[RankTransport]]] = {"threads": local_group, "sockets": socket_group}

GROUPS: dict[str, Callable[[int], Sequence[RankLink]]] = {
    **TAGGED,
    "sockets beside gloo": sockets_beside_gloo,
    "gloo": gloo_group,
    "gloo as nccl": lambda size: gloo_group(size, GlooAsNccl),
}

LossOf = Callable[[nn.Module, torch.Tensor], torch.Tensor]
OptimizerOf = Callable[[nn.Module], torch.optim.Optimizer]
Loop = Callable[[nn.Module, torch.optim.Optimizer, GradientSynchronizer | None, int], None]
"""Train a model for some steps as rank N of all; or, without a synchronizer, on the batches of all ranks at once."""


def trained(
    module: nn.Module,
    strategy: Strategy,
    cluster: ClusterSpec,
    optimizer_of: OptimizerOf,
    loop: Loop,
    group: str = "threads",
    unused: str = "error",
    holders_update: bool = False,
    overlaps: bool = False,
) -> list[nn.Module]:
    """A copy of `module` for every rank, after `loop` under `strategy`; its holders or all ranks update an element.

    With `overlaps`, communication overlaps with the next forward pass.
    """
    check_supported(strategy, model_of(module, list(dict(module.named_parameters()))), cluster)
    transports = GROUPS[group](len(strategy.replicas))
    modules = [copy.deepcopy(module) for _ in transports]
    devices = [str(device) for device in cluster.replica_devices]

    def run(rank: int) -> nn.Module:
        own = modules[rank]
        parameters = {name: value for name, value in own.named_parameters() if value.requires_grad}
        optimizer = optimizer_of(own)
        synchronizer = GradientSynchronizer(
            parameters,
            lambda order: plan(strategy, model_of(own, order), cluster),
            transports[rank],
            [devices.index(replica) for replica in strategy.replicas],
            unused=unused,
            timeout_seconds=WAIT_SECONDS / 2,
            optimizer=optimizer if holders_update else None,
            overlaps=overlaps,
            module=own,
            rows_apart=strategy.rows_apart,
        )
        with torch.no_grad():
            for parameter in own.parameters() if rank else ():
                parameter.add_(1.0)  # the broadcast has to bring it back
            synchronizer.broadcast([*own.parameters(), *own.buffers()])
        loop(own, optimizer, synchronizer, rank)
        synchronizer.settle()
        return own

    try:
        return on_all_ranks(len(transports), run)
    finally:
        for transport in transports:
            transport.close()


def largest_difference(module: nn.Module, other: nn.Module) -> float:
    """The largest absolute difference of a parameter of the two modules."""
    pairs = zip(module.parameters(), other.parameters(), strict=True)
    return max(float((first - second).detach().abs().max()) for first, second in pairs)


def are_equal(module: nn.Module, other: nn.Module) -> bool:
    """Whether all parameters have the same bits."""
    return all(map(torch.equal, module.parameters(), other.parameters()))

"""The transport for a module's parameters: own sockets, gloo or NCCL."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from autosync.engine.pytorch.collectives import connect_collectives, connect_gloo, connect_store, connecting
from autosync.engine.pytorch.group_transport import GroupTransport
from autosync.engine.pytorch.message_group import MessageGroup
from autosync.engine.pytorch.sockets import connect_sockets
from autosync.engine.pytorch.transport import RankLink
from autosync.errors import SpecError

DEVICES = {"sockets": "cpu", "gloo": "cpu", "nccl": "cuda"}
"""For each transport, the type of the parameters' device."""

NEVER_ON_A_GPU = (
    "autosync's exchanges over NCCL have never been run on a GPU; compare the first losses with those of one process."
)

Gather = Callable[[str], Sequence[str]]


def device_of(parameters: Mapping[str, nn.Parameter]) -> torch.device:
    """The device of all parameters. Raises `SpecError` if they are on several devices."""
    devices = {parameter.device: name for name, parameter in parameters.items()}
    if len(devices) > 1:
        (first, name), (second, other), *_ = devices.items()
        raise SpecError(
            f"Parameter {name!r} is on {first} and parameter {other!r} on {second}; the PyTorch engine needs all "
            "parameters of a process on one device."
        )
    return next(iter(devices), torch.device("cpu"))


def transport_for(name: str | None, device: torch.device, holders_update: bool = False) -> str:
    """The transport `name` if it fits the parameters' `device`; without a name, the usual one. Raises `SpecError`.

    If `holders_update`, the optimizer's state is split among the ranks.
    """
    if name is None:
        name = next((usual for usual, kind in DEVICES.items() if kind == device.type), "sockets")
    if name not in DEVICES:
        raise SpecError(f"No transport is called {name!r}; there are {', '.join(DEVICES)}.")
    if DEVICES[name] != device.type:
        fitting = ", ".join(usual for usual, kind in DEVICES.items() if kind == device.type) or "none"
        raise SpecError(
            f"The transport {name!r} needs parameters on {DEVICES[name]}, and they are on {device}; transports for "
            f"{device.type}: {fitting}."
        )
    if name == "nccl" and holders_update:
        raise SpecError(
            "The optimizer's state is split among the replicas only if the parameters are on the CPU; leave out "
            "optimizer=."
        )
    if name == "nccl" and not dist.is_nccl_available():
        raise SpecError("This installation of PyTorch has no NCCL; install PyTorch with CUDA.")
    return name


def connect_transport(
    name: str,
    device: torch.device,
    rank: int,
    size: int,
    address: str,
    gather: Gather,
    timeout_seconds: float,
    has_collectives: bool,
) -> RankLink:
    """Connect this rank to all others by the transport `name`, over `address`.

    A message may take `timeout_seconds`. With `has_collectives`, ranks also call PyTorch's own all-reduce. Raises
    `TransportError` when the ranks cannot connect.
    """
    if name == "sockets":
        sockets = connect_sockets(rank, size, address, gather)
        if has_collectives:
            sockets.collectives = connect_collectives(rank, size, address, gather)
        return sockets
    timeout = timedelta(seconds=timeout_seconds)
    if name == "gloo":
        # Twice the time, because a rank that waits too long for a step ends the group itself, with its own sentence.
        backend, store = connect_gloo(rank, size, address, gather, 2 * timeout)
        return GroupTransport(rank, size, MessageGroup(backend, store, device), device)
    if rank == 0:
        warnings.warn(NEVER_ON_A_GPU, stacklevel=2)
    with connecting(rank, "NCCL"):
        store = connect_store(rank, address, gather)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        group = MessageGroup(dist.ProcessGroupNCCL(store, rank, size, options), store, device)
        # NCCL makes its communicator in the first call, which all ranks must join.
        with torch.cuda.device(device):
            group.gather_counts(rank)
    return GroupTransport(rank, size, group, device)

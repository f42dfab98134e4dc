"""All-reduces of PyTorch's own: gloo's, as DistributedDataParallel calls them on CPUs; and connections of gloo."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist

from autosync.engine.pytorch.transport import TransportError

TIMEOUT = timedelta(seconds=120)
"""The time after which gloo gives up a collective, and the connections of all ranks with it."""


@final
class GlooCollectives:
    """A gloo process group of all ranks. All ranks call the same collectives in the same order."""

    def __init__(self, group: Any, store: Any) -> None:
        """`store` is the group's, which must live as long as the group."""
        self._group = group
        self._store = store

    def all_reduce(self, array: torch.Tensor, end: Callable[[Exception | None], None]) -> None:
        def finish(future: torch.futures.Future[Any]) -> None:
            try:
                future.wait()
            except Exception as error:  # gloo tells the loss of a peer so
                end(error)
            else:
                end(None)

        self._group.allreduce([array]).get_future().then(finish)

    @property
    def process_group(self) -> Any:
        """The group in the form that DistributedDataParallel takes."""
        group = dist.ProcessGroup(self._store, self._group.rank(), self._group.size())
        kind = dist.ProcessGroup.BackendType.GLOO
        group._set_default_backend(kind)
        group._register_backend(torch.device("cpu"), kind, self._group)
        return group

    def close(self) -> None:
        """End the group and its threads, which must not outlive the interpreter."""
        self._group = self._store = None


def connect_collectives(rank: int, size: int, address: str, gather: Callable[[str], Sequence[str]]) -> GlooCollectives:
    """Connect this rank to all others through gloo, over `address` only.

    gloo asks its peers for no token. Raises `TransportError` when the ranks cannot connect.
    """
    return GlooCollectives(*connect_gloo(rank, size, address, gather, TIMEOUT))


def connect_gloo(
    rank: int, size: int, address: str, gather: Callable[[str], Sequence[str]], timeout: timedelta
) -> tuple[Any, Any]:
    """A gloo process group of all ranks, over `address` only, and its store. Raises `TransportError`."""
    with connecting(rank, "gloo"):
        store = connect_store(rank, address, gather)
        options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=address)]
        options._timeout = timeout
        return dist.ProcessGroupGloo(store, rank, size, options), store


def connect_store(rank: int, address: str, gather: Callable[[str], Sequence[str]]) -> Any:
    """The store of a new group, which rank 0 serves at its `address` only."""
    listener = None
    if rank == 0:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
    port = int(gather(str(listener.getsockname()[1]) if listener else "")[0])
    host = gather(address)[0]
    return dist.TCPStore(  # type: ignore[attr-defined]
        host,
        port,
        is_master=rank == 0,
        timeout=TIMEOUT,
        wait_for_workers=False,
        # Without a listener of ours, the store would listen on all interfaces.
        master_listen_fd=None if listener is None else listener.detach(),
        use_libuv=True,
    )


@contextmanager
def connecting(rank: int, backend: str) -> Iterator[None]:
    """Raise errors of the block as `TransportError`."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise TransportError(f"Rank {rank} cannot connect to the others through {backend}: {error}") from None

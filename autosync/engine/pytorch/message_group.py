"""A process group of `torch.distributed`: messages without tags, in one order of rounds that all ranks share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, final

import torch
import torch.distributed as dist

from autosync.engine.pytorch.transport import TransportError

ABORT_TAG = 1
"""The tag of a message that no rank sends. All other messages have the tag 0."""


class Parcel(NamedTuple):
    """The elements of `array`, flat and contiguous, go to, or come from, the rank `peer`."""

    peer: int
    array: torch.Tensor


@final
class MessageGroup:
    """A gloo or NCCL process group of all ranks, which all call the same methods in the same order.

    gloo's methods return when the arrays are complete. NCCL's methods return at once, and the current stream waits.
    Methods raise `TransportError` when another rank is lost.
    """

    def __init__(self, backend: Any, store: Any, device: torch.device) -> None:
        """`backend` is a `ProcessGroupGloo` or `ProcessGroupNCCL`; `store` is its store, which must live as long."""
        self._backend = backend
        self._store = store
        self._device = device
        self._is_gloo = isinstance(backend, dist.ProcessGroupGloo)
        self._rank, self._size = backend.rank(), backend.size()

    def trade(self, sends: Sequence[Parcel], receives: Sequence[Parcel]) -> None:
        """Send and receive all parcels of a round at once.

        Two ranks match their parcels by order. Empty parcels do not travel.
        """
        sends, receives = ([part for part in parcels if len(part.array)] for parcels in (sends, receives))
        if not sends and not receives:
            return
        backend = self._backend
        try:
            # NCCL may deadlock if it gets the messages of a round one by one.
            if backend.supports_coalescing:
                backend._start_coalescing()
            works = [backend.recv([_bytes_of(array)], peer, 0) for peer, array in receives]
            works += [backend.send([_bytes_of(array)], peer, 0) for peer, array in sends]
            if backend.supports_coalescing:
                works = [backend._end_coalescing()]
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise self._lost(error) from None

    def all_reduce(self, array: torch.Tensor) -> None:
        """Replace `array` by its sum over all ranks."""
        try:
            self._backend.allreduce([array]).wait()
        except RuntimeError as error:
            raise self._lost(error) from None

    def gather_counts(self, count: int) -> list[int]:
        """The `count` of every rank, by rank. The thread waits for them."""
        own = torch.tensor([count], device=self._device)
        counts = [torch.empty_like(own) for _ in range(self._size)]
        try:
            self._backend.allgather([counts], [own]).wait()
        except RuntimeError as error:
            raise self._lost(error) from None
        return [int(number) for number in counts]

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """The `data` of every rank, by rank. The thread waits for them."""
        counts = self.gather_counts(len(data))
        arrays = [torch.empty(count, dtype=torch.uint8, device=self._device) for count in counts]
        if data:
            arrays[self._rank].copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        peers = [peer for peer in range(self._size) if peer != self._rank]
        self.trade([Parcel(peer, arrays[self._rank]) for peer in peers], [Parcel(peer, arrays[peer]) for peer in peers])
        return [array.cpu().numpy().tobytes() for array in arrays]

    def abort(self) -> None:
        """Close all connections; call in any thread. Waits of this rank and of all others then fail."""
        backend = self._backend
        if backend is None:
            return
        if not self._is_gloo:
            backend.abort()
            return
        # gloo aborts nothing, but a wait that times out closes all connections.
        for peer in set(range(self._size)) - {self._rank}:
            with suppress(RuntimeError):
                backend.recv([torch.empty(1)], peer, ABORT_TAG).wait(timedelta(milliseconds=1))

    def close(self) -> None:
        """End the group and its threads, which must not outlive the interpreter."""
        if self._backend is not None and not self._is_gloo:
            with suppress(RuntimeError):  # the group was aborted
                self._backend.shutdown()
        self._backend = self._store = None

    def _lost(self, error: RuntimeError) -> TransportError:
        cause = re.sub(r"^\[[^]]*\] ?", "", str(error)).split(". ")[0].split("\n")[0]
        name = "gloo" if self._is_gloo else "NCCL"
        return TransportError(f"another rank has probably ended or failed ({name}: {cause}).")


def _bytes_of(array: torch.Tensor) -> torch.Tensor:
    """The bytes of a flat array, because a backend does not send every dtype."""
    return array.view(torch.uint8)

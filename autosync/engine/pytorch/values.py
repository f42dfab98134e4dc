"""The second half of a step if holders update: new values go from their holders to all ranks."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import final

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from autosync.engine.pytorch.bucket import Bucket, SlicePart
from autosync.engine.pytorch.holders import HolderUpdates
from autosync.engine.pytorch.late import expect, make_late
from autosync.engine.pytorch.transport import RankLink, TransportError


@final
class ValueExchange:
    """Exchanges the values that the optimizer's step has updated on this rank for those of the other ranks.

    Without overlap, `optimizer.step()` returns when all parameters have their new values. With overlap, it returns at
    once, and the first operation that reads a parameter waits for the parameter's values, so they travel during the
    next forward pass. They are sent in the order in which parameters are read.
    """

    def __init__(
        self,
        holders: HolderUpdates,
        transport: RankLink,
        seconds: float,
        overlaps: bool,
        then: Callable[[], None],
    ) -> None:
        """An exchange that takes longer than `seconds` fails. `then` is called after every exchange."""
        self.holders = holders
        self.is_due = False
        """Whether the means of a backward pass wait for the update."""
        self._transport = transport
        self._seconds = seconds
        self._overlaps = overlaps
        self._then = then
        self._buckets: Sequence[Bucket] = ()
        self._parts: dict[nn.Parameter, list[SlicePart]] = {}
        self._late: dict[nn.Parameter, None] = {}
        """The parameters whose new values have not been put in place."""
        self._reads: dict[Bucket, None] = {}
        """The buckets in the order of their first reads in the last forward pass."""
        self._handles: list[RemovableHandle] = [
            holders.optimizer.register_step_pre_hook(lambda *_: self._before_update()),
            holders.optimizer.register_step_post_hook(lambda *_: self._after_update()),
        ]
        atexit.register(self._settle_at_exit)

    def place(self, buckets: Sequence[Bucket], ranks: Sequence[int]) -> None:
        """Exchange the values of these buckets from now on. All ranks call this together. Raises `TransportError`."""
        self.settle()
        self.holders.place(buckets, ranks, self._transport.rank)
        self._buckets, self._parts, self._reads = buckets, {}, {}
        for bucket in buckets:
            for part in bucket.parts:
                self._parts.setdefault(part.parameter, []).append(part)

    def begin_update(self) -> None:
        """Hand the means in the buckets to the optimizer."""
        self.is_due = True
        self.holders.take_gradients()

    def settle(self) -> None:
        """Put all late values in place, and wait until all values are sent. Raises `TransportError`."""
        for parameter in list(self._late):
            expect(parameter)
        for bucket in self._buckets:
            self.wait_until_sent(bucket)

    def wait_until_sent(self, bucket: Bucket) -> None:
        """Wait until the arrays of `bucket` may be overwritten. Raises `TransportError`."""
        if bucket.releases:
            self._transport.wait_for(lambda: not bucket.releases, self._seconds)

    def skip_update(self) -> None:
        """End a step whose means no optimizer has used. Raises `RuntimeError` if that changes the training."""
        fault = None
        if self.holders.has_gradients():
            fault = (
                "A backward pass began before optimizer.step() had used the gradients of the last; to accumulate "
                "gradients, put all backward passes but the last of a step in autosync.torch.no_sync(model)."
            )
        else:
            self.holders.read_values()
            self._send()  # the holders' unchanged values
            for bucket in self._buckets:
                self._wait_for_values(bucket)
            if not all(torch.equal(part.view, part.of(part.parameter)) for part in self._all_parts()):
                fault = (
                    "This rank skipped an optimizer.step() that other ranks took; to scale losses, use "
                    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler, which decides for all ranks."
                )
        if fault is not None:
            self._transport.close()  # the other ranks would wait
            raise RuntimeError(fault)

    def undo(self) -> None:
        """Give the plain optimizer back. All ranks call this together. Raises `TransportError`."""
        self.settle()
        self.holders.restore()

    def remove_hooks(self) -> None:
        atexit.unregister(self._settle_at_exit)
        for handle in self._handles:
            handle.remove()
        self.holders.remove_hooks()

    def _settle_at_exit(self) -> None:
        """Send the last values before the process ends, because other ranks may need them."""
        with suppress(TransportError):
            self.settle()

    def _before_update(self) -> None:
        if self.is_due:
            self.holders.read_values()

    def _after_update(self) -> None:
        if not self.is_due:
            return
        self._send()
        for parameter in self._parts:
            self._late[parameter] = None
            arrive = partial(self._put, parameter)
            if not self._overlaps or not make_late(parameter, arrive):
                arrive()
        self._then()

    def _send(self) -> None:
        self.holders.write_values()
        self.is_due = False
        order = [*self._reads, *(bucket for bucket in self._buckets if bucket not in self._reads)]
        for place, bucket in enumerate(order):
            bucket.release(float(place))
        self._reads = {}

    def _put(self, parameter: nn.Parameter) -> None:
        """Put the new values of a parameter in place, once they are here."""
        for part in self._parts[parameter]:
            self._reads[part.bucket] = None
            self._wait_for_values(part.bucket)
        with torch.no_grad():
            for part in self._parts[parameter]:
                part.of(parameter).copy_(part.view)
        del self._late[parameter]

    def _wait_for_values(self, bucket: Bucket) -> None:
        if not bucket.has_values:
            self._transport.wait_for(lambda: bucket.has_values, self._seconds)

    def _all_parts(self) -> Iterator[SlicePart]:
        return (part for parts in self._parts.values() for part in parts)

"""Gradients that travel together in one flat array, and the exchanges that turn them into their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import nn

from autosync.engine.pytorch.compressed import exchanges_of, sums_of
from autosync.engine.pytorch.exchange import GradientExchange, ProgramExchange
from autosync.engine.pytorch.exchanges import ExchangeFactory
from autosync.engine.pytorch.factors import FactoredGradient
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.plan import PlannedBucket
from autosync.engine.pytorch.transport import RankLink
from autosync.layout.shards import Slice


@dataclass(frozen=True, eq=False)
class SlicePart:
    """A parameter's slice in the flat array of a bucket."""

    parameter: nn.Parameter
    bucket: Bucket
    slice: Slice
    begin: int
    """The slice's first element in the flat array."""
    view: torch.Tensor
    """The slice's elements in the flat array, in the slice's shape."""
    mean: torch.Tensor
    """The slice's elements in the flat array of means, which may be the same array."""

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The slice of a tensor with the parameter's shape."""
        return tensor if self.slice.count == 1 else tensor.narrow(self.slice.axis, self.slice.start, self.slice.size)

    def fill(self, gradient: torch.Tensor) -> None:
        """Copy the slice of a gradient to the flat array, unless the array has it already."""
        source = self.of(gradient)
        if source.data_ptr() != self.view.data_ptr() or source.stride() != self.view.stride():
            self.view.copy_(source)


@final
class Bucket:
    """Gradients that travel together, and the exchanges that turn them into their mean.

    If values are updated by their holders, the exchanges stop halfway, at the complete means, until `release`; then
    the holders' updated values travel instead of the means.

    If steps have no barrier, a step may begin while messages of the last one are still on their way. Its exchanges
    begin once those of the last have ended; until then gradients gather in an array apart from the means.
    """

    def __init__(
        self,
        plan: PlannedBucket,
        parameters: Mapping[str, nn.Parameter],
        exchanges: ExchangeFactory,
        transport: RankLink,
        ranks: Sequence[int],
        priority: float,
        stops_halfway: bool = False,
        has_barrier: bool = True,
    ) -> None:
        first = parameters[plan.slices[0].variable.name]
        self.plan = plan
        self.flat = torch.zeros(plan.elements, dtype=first.dtype, device=first.device)
        means = self.flat
        if not has_barrier and plan.exchanges and not plan.is_collective:
            means = torch.zeros_like(self.flat)
        self.is_double = means is not self.flat
        """Whether gradients of a step can gather while messages of the last step are on their way."""
        self.parts: list[SlicePart] = []
        begin = 0
        for part in plan.slices:
            parameter, span = parameters[part.variable.name], slice(begin, begin + part.elements)
            view, mean = self.flat[span].view(part.shape), means[span].view(part.shape)
            self.parts.append(SlicePart(parameter, self, part, begin, view, mean))
            begin += part.elements
        self.missing = len(self.parts)
        """The number of slices whose gradients the backward pass has not reached yet."""
        self.factors: dict[str, FactoredGradient] = {}
        """By variable, the factors that travel instead of gradients, if these do."""
        own_means = means if self.is_double else None
        place = Place(plan, self.flat, exchanges, ranks.index(transport.rank), self.factors, own_means)
        self._halves = sums_of(place, stops_halfway=True) if stops_halfway else ()
        self._exchanges: Sequence[GradientExchange] = self._halves or exchanges_of(place)
        self._transport = transport
        self._priority = priority
        self.releases = 0
        """Exchanges that have gone on from halfway and have not ended."""
        self._programs = [exchange for exchange in self._exchanges if isinstance(exchange, ProgramExchange)]
        self._has_begun = True
        """Whether the last step's exchanges have begun; written by both threads, in turns."""
        self._running = 0
        """The number of exchanges that have begun and have not ended; only the transport's thread writes it."""
        self._waiting: Callable[[], None] | None = None
        """Begins the exchanges of a step, which wait for the end of those of the last step."""

    @property
    def memory(self) -> dict[str, torch.Tensor]:
        """The state of compressors between steps."""
        return {name: tensor for exchange in self._exchanges for name, tensor in exchange.memory.items()}

    @property
    def exchanges(self) -> int:
        """The number of times that `start` calls `done`."""
        return len(self._exchanges)

    def start(self, step: int, done: Callable[[], None]) -> None:
        """Begin all exchanges; each of them calls `done` at its end, or halfway, in the transport's thread."""
        self.missing = len(self.parts)
        self._has_begun = False
        self._transport.call(partial(self._begin, step, done))

    def _begin(self, step: int, done: Callable[[], None]) -> None:
        if self._running:
            self._waiting = partial(self._begin, step, done)
            return
        self._running = len(self._exchanges)
        for exchange in self._exchanges:
            exchange.start(step, self._priority, partial(self._end, done))
        self._has_begun = True
        self._transport.notify()

    def _end(self, done: Callable[[], None]) -> None:
        self._running -= 1
        done()
        if not self._running and self._waiting is not None:
            begin, self._waiting = self._waiting, None
            begin()

    @property
    def is_idle(self) -> bool:
        """Whether the exchanges of the last step have ended. The transport's `notify` tells a change."""
        return self._has_begun and not self._running

    def has_room(self) -> bool:
        """Whether gradients of the next step can be copied to the array."""
        return self.is_double or self.is_idle

    @property
    def has_means(self) -> bool:
        """Whether the means of the last step are here; messages to other ranks may still be on their way."""
        if not self._has_begun or len(self._programs) < len(self._exchanges):
            return self.is_idle
        return all(program.has_results for program in self._programs)

    @property
    def has_values(self) -> bool:
        """Whether the values of all ranks are here after a release. The transport's `notify` tells a change."""
        return all(exchange.has_results for exchange in self._halves)

    def release(self, priority: float) -> None:
        """Go on from halfway; `releases` counts the exchanges that have not ended."""
        self.releases = len(self._halves)

        def end() -> None:
            self.releases -= 1
            self._transport.notify()

        def go_on() -> None:
            for exchange in self._halves:
                exchange.release(priority, end)

        self._transport.call(go_on)

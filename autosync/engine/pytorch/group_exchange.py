"""Exchanges over a process group, round by round, in one order on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import final

import torch

from autosync.engine.pytorch.exchange import Finish
from autosync.engine.pytorch.group_transport import GroupTransport
from autosync.engine.pytorch.message_group import Parcel
from autosync.engine.pytorch.step_order import StepOrder
from autosync.engine.pytorch.transport import Action
from autosync.layout.span_program import Program, ProgramRound, SpanMessage


@final
class GroupExchange:
    """Turns this rank's `sums` into results by its program, like `ProgramExchange` and with the same bits.

    The exchange runs alone: each half of a round is one trade of messages, and the next half begins after it. An
    exchange that stops halfway runs the first halves of all rounds, and after `release` the second halves.
    """

    memory: Mapping[str, torch.Tensor] = MappingProxyType({})

    def __init__(
        self,
        transport: GroupTransport,
        order: StepOrder,
        program: Program,
        ranks: Sequence[int],
        sums: torch.Tensor,
        results: torch.Tensor,
        finish: Finish,
        releases: StepOrder | None = None,
    ) -> None:
        """The exchange stops halfway if it has a place in the order of `releases`. All releases of a step are called
        before the next step. The other arguments are those of `ProgramExchange`."""
        self._group = transport.group
        self._order = order
        self._number = order.number()
        self._ranks = ranks
        self._results = results
        self._sums = sums
        self._finish = finish
        self._releases = releases
        self._release_number = 0 if releases is None else releases.number()
        self.has_results = True
        self._rounds = [(step, [end - begin for _, (begin, end) in step.added]) for step in program.rounds]
        """Each round of the program, and the sizes of the sums that arrive in the round."""
        self._arrived = sums.new_empty(max((sum(sizes) for _, sizes in self._rounds), default=0))
        """Memory for the sums that arrive in a round."""

    def start(self, step: int, priority: float, done: Action) -> None:
        """Begin a step; call in the transport's thread. `done` runs when the results are in place, or halfway."""
        del step, priority
        self._order.offer(self._number, partial(self._run, done))

    def release(self, priority: float, done: Action) -> None:
        """Go on with a step that has stopped halfway; call in the transport's thread. `done` is as for `start`."""
        del priority
        assert self._releases is not None
        self._releases.offer(self._release_number, partial(self._go_on, done))

    def _run(self, done: Action) -> None:
        self.has_results = False
        for step, sizes in self._rounds:
            self._add(step, sizes)
            if self._releases is None:
                self._copy(step)
        done()

    def _go_on(self, done: Action) -> None:
        for step, _ in self._rounds:
            self._copy(step)
        self.has_results = True
        done()

    def _add(self, step: ProgramRound, sizes: list[int]) -> None:
        arrays = self._arrived[: sum(sizes)].split(sizes)
        sources = [self._ranks[member] for member, _ in step.added]
        self._group.trade(self._parcels(self._sums, step.sums_sent), list(map(Parcel, sources, arrays)))
        for (_, (begin, end)), array in zip(step.added, arrays, strict=True):
            self._sums[begin:end].add_(array)
        for span in step.finished:
            self._finish(span)

    def _copy(self, step: ProgramRound) -> None:
        self._group.trade(self._parcels(self._results, step.results_sent), self._parcels(self._results, step.copied))

    def _parcels(self, array: torch.Tensor, messages: Sequence[SpanMessage]) -> list[Parcel]:
        return [Parcel(self._ranks[member], array[begin:end]) for member, (begin, end) in messages]


@final
class GroupAllReduce:
    """The group's own all-reduce of a flat array, and then `finish` of the whole array."""

    def __init__(self, transport: GroupTransport, order: StepOrder, array: torch.Tensor, finish: Finish) -> None:
        self._group = transport.group
        self._order = order
        self._number = order.number()
        self._array = array
        self._finish = finish

    def start(self, step: int, priority: float, done: Action) -> None:
        """Begin a step; call in the transport's thread. `done` runs when the results are in place."""
        del step, priority
        self._order.offer(self._number, partial(self._run, done))

    def _run(self, done: Action) -> None:
        self._group.all_reduce(self._array)
        self._finish((0, len(self._array)))
        done()

"""One rank's part in the exchange of a flat bucket: its program of `layout/span_program.py`, driven by arrivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, final

import torch

from autosync.engine.pytorch.transport import Action, RankTransport, Tag
from autosync.engine.pytorch.wire import PLAIN, CastResults, WireForm
from autosync.layout.moves import Span
from autosync.layout.span_program import Program

Finish = Callable[[Span], None]
"""Turn the complete sum of a span into its result."""

MESSAGES_PER_PAIR = 1 << 12
"""More messages than two ranks exchange in one direction in one half of a round."""


def leave(span: Span) -> None:
    """Leave the complete sum of a span as it is."""
    del span


class GradientExchange(Protocol):
    """Turns this rank's gradients in a flat array into the mean over all ranks, once per step."""

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        """The state between steps, by names that do not depend on the order of the bucket. Writing to it changes it."""
        ...

    def start(self, step: int, priority: float, done: Action) -> None:
        """Begin step `step`; call in the transport's thread. `done` runs once the means are in the array and the
        transport has taken all bytes."""
        ...


def _nothing() -> None:
    """Do nothing."""


class _Operation:
    """A step of the program, and the steps that wait for it."""

    __slots__ = ("act", "followers", "needed", "waiting_for")

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.followers: list[_Operation] = []
        self.needed = 0
        """The number of operations before this one."""
        self.waiting_for = 0
        """The number of those that are not complete in the current step."""

    def after(self, operation: _Operation) -> None:
        """Wait for `operation`."""
        operation.followers.append(self)
        self.needed += 1


@final
class ProgramExchange:
    """Turns this rank's `sums` into results, together with the other ranks, once per step.

    `sums` is a flat contiguous array: at the start this rank's gradients, at the end of a step partial sums. `results`
    has as many elements and holds the finished spans; `sums` and `results` may be the same array. `finish(span)` turns
    the complete sum of a span into its result: the mean of the gradients, or the updated values.

    The program's operations depend on each other by the spans that they read and write. Each operation starts as soon
    as the operations that it depends on are complete, in the transport's thread. Sums of one span are added in the
    program's order and not in the order of arrival, so all ranks get the same bits in every run.

    An exchange that stops halfway is done once this rank has finished its spans. Later, `release` sends `results`,
    which the owner of the arrays has changed by then.
    """

    memory: Mapping[str, torch.Tensor] = MappingProxyType({})

    def __init__(
        self,
        transport: RankTransport,
        program: Program,
        ranks: Sequence[int],
        sums: torch.Tensor,
        results: torch.Tensor,
        finish: Finish,
        stops_halfway: bool = False,
        wire: WireForm = PLAIN,
        cast_results: CastResults | None = None,
    ) -> None:
        """`ranks[m]` is the rank of member m of the program. All ranks make their exchanges in the same order.

        Sums travel over the `wire`. With `cast_results`, the messages of results are in it, and `finish` writes them.
        """
        self._transport = transport
        self._number = transport.number_exchange()
        self._ranks = ranks
        self._wire = wire
        self._cast_results = cast_results
        self._operations: list[_Operation] = []
        self._receives: list[tuple[int, int, memoryview, _Operation]] = []
        self._writes: list[tuple[Span, _Operation]] = []
        self._finishes = 0
        """The number of spans that this rank finishes."""
        self._copies = 0
        """The number of results that this rank receives."""
        self._missing = 0
        """The number of those that have not arrived in the current step, and of spans that are not finished; spans
        that wait for a release do not count."""
        self._stops_halfway = stops_halfway
        self._halfway: Action = _nothing
        self._held: list[_Operation] = []
        """The operations that have finished their spans in this step and wait for the release."""
        self._step = 0
        self._left = 0
        self._priority = 0.0
        self._done: Action = _nothing
        self._compile(program, sums, results, finish)
        self._first = [operation for operation in self._operations if not operation.needed]

    def start(self, step: int, priority: float, done: Action) -> None:
        """Begin step `step`; call in the transport's thread. `done` runs after the last operation, and after the
        transport has taken all bytes, so the arrays may then be overwritten."""
        self._step, self._priority = step, priority
        self._halfway, self._done = (done, _nothing) if self._stops_halfway else (_nothing, done)
        self._left = len(self._operations)
        self._missing = self._copies if self._stops_halfway else self._copies + self._finishes
        for operation in self._operations:
            operation.waiting_for = operation.needed
        # Sends come first: a receive whose message has arrived already completes at once, and may complete the step.
        for operation in self._first:
            operation.act()
        for peer, message, memory, operation in self._receives:
            self._transport.receive(peer, Tag(self._number, step, message), memory, partial(self._arrived, operation))
        if not (self._finishes if self._stops_halfway else self._operations):
            done()

    @property
    def has_results(self) -> bool:
        """Whether all results are here; after a release, those of other ranks. `notify` tells a change."""
        return not self._missing

    def release(self, priority: float, done: Action) -> None:
        """Go on with a step that has stopped halfway; call in the transport's thread. `done` is as for `start`."""
        self._priority = priority
        assert len(self._held) == self._finishes, "the exchange has not stopped halfway"
        if not self._left:  # this rank has finished nothing, and all other ranks' results are here
            done()
            return
        self._done = done
        held, self._held = self._held, []
        for operation in held:
            self._complete(operation)

    def _compile(self, program: Program, sums: torch.Tensor, results: torch.Tensor, finish: Finish) -> None:
        added, copied = list[_Operation](), list[_Operation]()
        for number, program_round in enumerate(program.rounds):
            # Arrivals of the round before, which sends wait for. Up to halfway, no results arrive.
            before_results = [*added, *copied] if program.in_turns else []
            before_sums = added if program.in_turns and self._stops_halfway else before_results
            added, copied = [], []
            counts: dict[tuple[int, bool], int] = {}
            # Every member sends the sums that it held when the round began, so sends read before adds write.
            for peer, span in program_round.sums_sent:
                message, values = self._message(number, 0, peer, True, counts), sums[slice(*span)]
                buffer = self._wire.buffer(values)
                encode = partial(self._wire.write, values, buffer)
                self._add_send(message, peer, buffer, [*self._written(span), *before_sums], encode)
            for peer, span in program_round.added:
                added.append(self._add_addition(self._message(number, 0, peer, False, counts), peer, sums, span))
            for span in program_round.finished:
                self._add_finish(finish, span)
            counts = {}
            for peer, span in program_round.results_sent:
                message = self._message(number, 1, peer, True, counts)
                buffer = self._result(results, span)
                self._add_send(message, peer, buffer, [*self._written(span), *before_results])
            for peer, span in program_round.copied:
                message = self._message(number, 1, peer, False, counts)
                copied.append(self._add_copy(message, peer, results, span))

    @staticmethod
    def _message(number: int, half: int, peer: int, sending: bool, counts: dict[tuple[int, bool], int]) -> int:
        """The number of a message: both ends count the messages of their pair in the same order."""
        ordinal = counts.get((peer, sending), 0)
        counts[peer, sending] = ordinal + 1
        return (2 * number + half) * MESSAGES_PER_PAIR + ordinal

    def _operation(self, act: Callable[[_Operation], None], after: Sequence[_Operation]) -> _Operation:
        operation = _Operation(_nothing)
        operation.act = lambda: act(operation)
        for earlier in dict.fromkeys(after):
            operation.after(earlier)
        self._operations.append(operation)
        return operation

    def _written(self, span: Span) -> list[_Operation]:
        """The operations that write a part of `span`."""
        return [operation for (begin, end), operation in self._writes if begin < span[1] and span[0] < end]

    def _result(self, results: torch.Tensor, span: Span) -> torch.Tensor:
        """The memory of the message of a result."""
        return PLAIN.buffer(results[slice(*span)]) if self._cast_results is None else self._cast_results.message(span)

    def _add_send(
        self, message: int, member: int, buffer: torch.Tensor, after: Sequence[_Operation], encode: Action = _nothing
    ) -> None:
        data, peer = buffer.numpy().data, self._ranks[member]

        def act(operation: _Operation) -> None:
            encode()
            tag = Tag(self._number, self._step, message)
            self._transport.send(peer, tag, data, self._priority, lambda: self._complete(operation))

        self._operation(act, after)

    def _add_addition(self, message: int, member: int, sums: torch.Tensor, span: Span) -> _Operation:
        staging = torch.empty(self._wire.size(span[1] - span[0], sums.dtype), dtype=torch.uint8)
        arrival = self._add_arrival(message, member, staging)
        target = sums[span[0] : span[1]]

        def act(operation: _Operation) -> None:
            target.add_(self._wire.read(staging, target.dtype))
            self._complete(operation)

        self._writes.append((span, self._operation(act, [arrival, *self._written(span)])))
        return arrival

    def _add_finish(self, finish: Finish, span: Span) -> None:
        self._finishes += 1

        def act(operation: _Operation) -> None:
            finish(span)
            if not self._stops_halfway:
                self._count_result()
                self._complete(operation)
                return
            self._held.append(operation)
            if len(self._held) == self._finishes:
                self._halfway()

        self._writes.append((span, self._operation(act, self._written(span))))

    def _add_copy(self, message: int, member: int, results: torch.Tensor, span: Span) -> _Operation:
        # A result contains this rank's own sum, so the sum has left before the result can arrive in its memory.
        def act() -> None:
            if self._cast_results is not None:
                self._cast_results.read(span)
            self._count_result()

        arrival = self._add_arrival(message, member, self._result(results, span), act)
        self._copies += 1
        self._writes.append((span, arrival))
        return arrival

    def _count_result(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._transport.notify()

    def _add_arrival(self, message: int, member: int, buffer: torch.Tensor, act: Action = _nothing) -> _Operation:
        arrival = _Operation(act)
        arrival.needed = 1  # the message; `_complete` is called by the transport
        self._operations.append(arrival)
        self._receives.append((self._ranks[member], message, buffer.numpy().data, arrival))
        return arrival

    def _arrived(self, operation: _Operation, data: memoryview) -> None:
        """Complete an operation that waits for a message, whose bytes are in the operation's memory already."""
        del data
        operation.act()
        self._complete(operation)

    def _complete(self, operation: _Operation) -> None:
        self._left -= 1
        for follower in operation.followers:
            follower.waiting_for -= 1
            if not follower.waiting_for:
                follower.act()
        if not self._left and not operation.followers:
            self._finish_step()

    def _finish_step(self) -> None:
        done, self._done = self._done, _nothing
        done()

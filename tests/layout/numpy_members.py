"""Runs programs on NumPy arrays: a mailbox, and members that know only their own program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosync.layout.moves import Span
from autosync.layout.span_program import Program, SpanMessage
from autosync.numeric import FloatArray

__all__ = ["Mailbox", "run_members"]

Finish = Callable[[int, Span, FloatArray], FloatArray]
"""(member, span, complete sum of the span) -> the result."""


@dataclass
class Mailbox:
    """Messages under way by (source, target, round, phase, span), and sent elements by (source, target)."""

    under_way: dict[tuple[int, int, int, str, Span], FloatArray] = field(default_factory=dict)
    sent: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass
class _Member:
    """One member, which works in place on one flat array; a span is a view of the array."""

    number: int
    program: Program
    array: FloatArray
    holds_sum: bool
    finish: Finish
    box: Mailbox
    round: int = 0
    has_sent: bool = False
    phase: str = "sums"

    @property
    def is_done(self) -> bool:
        return self.round == len(self.program.rounds)

    def advance(self) -> bool:
        """Take the next step that messages allow; return whether the member made progress."""
        if self.is_done:
            return False
        steps = self.program.rounds[self.round]
        sent, arriving = (steps.sums_sent, steps.added) if self.phase == "sums" else (steps.results_sent, steps.copied)
        if not self.has_sent:
            self._finish(steps.finished if self.phase == "results" else ())
            self._send(sent)
            self.has_sent = True
            return True
        keys = [(source, self.number, self.round, self.phase, span) for source, span in arriving]
        if any(key not in self.box.under_way for key in keys):
            return False
        for key in keys:
            view, arrived = self.array[slice(*key[-1])], self.box.under_way.pop(key)
            if self.phase == "sums" and self.holds_sum:
                view += arrived
            else:
                view[:] = arrived
                self.holds_sum |= self.phase == "sums"
        self.has_sent = False
        self.round += self.phase == "results"
        self.phase = "results" if self.phase == "sums" else "sums"
        return True

    def _finish(self, spans: Sequence[Span]) -> None:
        for span in spans:
            view = self.array[slice(*span)]
            view[:] = self.finish(self.number, span, view)

    def _send(self, messages: Sequence[SpanMessage]) -> None:
        for target, span in messages:
            self.box.under_way[self.number, target, self.round, self.phase, span] = self.array[slice(*span)].copy()
            pair = self.number, target
            self.box.sent[pair] = self.box.sent.get(pair, 0) + span[1] - span[0]


def run_members(
    programs: Sequence[Program], arrays: Sequence[FloatArray | None], elements: int, finish: Finish
) -> tuple[list[FloatArray], Mailbox]:
    """Run all programs; return every member's array and the mailbox. Members with None instead of an array contribute
    no gradient.

    The last member that can advance does, so that members get as far ahead of each other as messages allow.
    """
    box = Mailbox()
    members = [
        _Member(number, program, np.zeros(elements) if array is None else array.copy(), array is not None, finish, box)
        for number, (program, array) in enumerate(zip(programs, arrays, strict=True))
    ]
    while not all(member.is_done for member in members):
        assert any(member.advance() for member in reversed(members)), "members wait for each other"
    assert not box.under_way, "a message that no member takes"
    return [member.array for member in members], box

"""Which rounds of a piece go on at the same time as the next ones of other pieces."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Window(NamedTuple):
    """Rounds of a piece, from `begin` to before `end`, that go on at the same time, each of another piece, `times`
    times; a `share` of a bucket goes in all of these."""

    begin: int
    end: int
    times: int
    share: float


def windows_of(rounds: int, pieces: int | None) -> list[Window]:
    """The windows of so many pieces of so many rounds each, of which each begins a round after the one before it.

    Without `pieces` there are so many, and so small, that all rounds always go on.
    """
    if pieces is None:
        return [Window(0, rounds, 1, 1.0)]
    found = Counter((max(0, stage - pieces + 1), min(rounds, stage + 1)) for stage in range(pieces + rounds - 1))
    return [Window(begin, end, times, times / pieces) for (begin, end), times in found.items()]

"""Overlap windows of a pipeline: the rounds of different pieces that run at the same time."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class OverlapWindow(NamedTuple):
    """Rounds that run at the same time, each for a different piece: rounds `begin` to before `end`.

    The window occurs `times` times, with a `share` of the bucket in all of them.
    """

    begin: int
    end: int
    times: int
    share: float


def windows_of(rounds: int, pieces: int | None) -> list[OverlapWindow]:
    """The overlap windows of `pieces` pieces with `rounds` rounds each, where each piece starts one round after the
    previous one.

    None stands for infinitely many small pieces, so that all rounds always run.
    """
    if pieces is None:
        return [OverlapWindow(0, rounds, 1, 1.0)]
    windows = Counter((max(0, stage - pieces + 1), min(rounds, stage + 1)) for stage in range(pieces + rounds - 1))
    return [OverlapWindow(begin, end, times, times / pieces) for (begin, end), times in windows.items()]

"""Executes moves symbolically: computes which gradients end up in every element of every member."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autosync.layout.moves import Moves

__all__ = ["Mean", "carried_out"]


@dataclass(frozen=True)
class Mean:
    """The mean of one element."""

    summed: Counter[int]
    """The number of times that each member's gradient is in the mean."""

    made_by: int
    """The member that divided the sum."""

    roundings: int
    """The messages on the longest path of a gradient into the sum, and one for the mean: in 16 bits each rounds it."""


def carried_out(moves: Moves, members: int, elements: int) -> list[list[Mean | None]]:
    """The mean of each element on each member; None if the member neither received the mean nor kept a sum."""
    sums = [[(Counter([member]), 0)] * elements for member in range(members)]
    for moves_of_round in moves.adding:
        sent = [sums[source][slice(*span)] for source, _, span in moves_of_round]
        for (_, target, (begin, _)), arrived in zip(moves_of_round, sent, strict=True):
            for place, (summed, roundings) in enumerate(arrived, begin):
                held, before = sums[target][place]
                sums[target][place] = held + summed, max(before, roundings + 1)
    handed = {
        (target, place)
        for moves_of_round in moves.copying
        for _, target, span in moves_of_round
        for place in range(*span)
    }
    means: list[list[Mean | None]] = [
        [
            None if (member, place) in handed else Mean(summed, member, roundings + 1)
            for place, (summed, roundings) in enumerate(of_member)
        ]
        for member, of_member in enumerate(sums)
    ]
    for moves_of_round in moves.copying:
        copies = [means[source][slice(*span)] for source, _, span in moves_of_round]
        for (_, target, span), arrived in zip(moves_of_round, copies, strict=True):
            means[target][slice(*span)] = arrived
    return means

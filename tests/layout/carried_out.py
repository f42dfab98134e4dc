"""Moves carried out on paper: whose gradients every member has of every element in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autosync.layout.moves import Moves

__all__ = ["Mean", "carried_out"]


@dataclass(frozen=True)
class Mean:
    """Of one element: how often each member's gradient is in it, and which member made it of the sum.

    `roundings` counts the messages on the longest way of a gradient into the sum, and the mean's: in 16 bits each
    rounds it.
    """

    summed: Counter[int]
    made_by: int
    roundings: int


def carried_out(moves: Moves, members: int, elements: int) -> list[list[Mean | None]]:
    """What each member has of each element; None where it was not handed the mean, nor had a sum left to make it of."""
    sums = [[(Counter([member]), 0)] * elements for member in range(members)]
    for each in moves.adding:
        sent = [sums[source][slice(*span)] for source, _, span in each]
        for (_, target, (begin, _)), arrived in zip(each, sent, strict=True):
            for place, (summed, roundings) in enumerate(arrived, begin):
                own, before = sums[target][place]
                sums[target][place] = own + summed, max(before, roundings + 1)
    handed = {(target, place) for each in moves.copying for _, target, span in each for place in range(*span)}
    means: list[list[Mean | None]] = [
        [
            None if (member, place) in handed else Mean(summed, member, roundings + 1)
            for place, (summed, roundings) in enumerate(own)
        ]
        for member, own in enumerate(sums)
    ]
    for each in moves.copying:
        copies = [means[source][slice(*span)] for source, _, span in each]
        for (_, target, span), arrived in zip(each, copies, strict=True):
            means[target][slice(*span)] = arrived
    return means

"""All-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Those beyond the first P send their bucket to the replica P before
them, and get the result from it at the end. Among the P, in rounds of distance d = P/2, P/4, ..., 1, replica r and
r xor d exchange halves of what they still hold, the lower one keeping the first, and add; then the distances are gone
through the other way, and what a replica holds of the mean doubles (`halves`). Each of the P sends 2(P-1)/P of the
bucket in 2 log2 P messages, and whoever takes one for a replica beyond them a bucket more.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.all_reduce.halves import halving_mean
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire

__all__ = ["halving_doubling_mean"]


def halving_doubling_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    count, inner = len(members), 1 << (len(members).bit_length() - 1)
    late = [(number, number - inner) for number in range(inner, count)]
    distances = [inner >> k for k in range(1, inner.bit_length())]
    return halving_mean(members, gradients, late, distances, wire)

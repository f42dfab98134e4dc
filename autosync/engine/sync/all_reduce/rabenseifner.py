"""Rabenseifner's all-reduce: buckets are halved at doubling distances (Thakur, Rabenseifner and Gropp 2005).

P is the largest power of two of at most N replicas. Of the first 2(N-P), those at odd places send their bucket to the
one before them, and get the result from it at the end. The P that are left halve their sums (`halves`) at distances
1, 2, ..., P/2, and double the mean the other way. Each of them sends 2(P-1)/P of the bucket in 2 log2 P messages, and
the first of a pair a bucket more.

Neighbours in order exchange the largest halves. Where they share a node or a rack, little leaves it: with two racks of
two, each rack sends the bucket once to the other, where a ring sends 3/2 of it and `halving_doubling` twice the bucket.

In 16 bits an element is rounded at most ceil(log2 N) times while it is summed and once when the mean is sent: its error
is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.all_reduce.halves import halving_mean
from autosync.engine.sync.member import Member
from autosync.engine.sync.wire import Wire

__all__ = ["rabenseifner_mean"]


def rabenseifner_mean(members: Sequence[Member], gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    count, inner = len(members), 1 << (len(members).bit_length() - 1)
    late = [(number, number - 1) for number in range(1, 2 * (count - inner), 2)]
    distances = [1 << k for k in range(inner.bit_length() - 1)]
    return halving_mean(members, gradients, late, distances, wire)

"""Sufficient-factor broadcasting: a matrix gradient A^T B is sent as A and B (Xie et al. 2014; Poseidon, Zhang 2017).

The sum over N replicas is one product: the stacked A of all replicas, transposed, times their stacked B.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import final

import torch

from autosync.engine.pytorch.factors import FactoredGradient
from autosync.engine.pytorch.parts import PartExchange
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.transport import Action
from autosync.layout.factor_messages import factor_messages
from autosync.layout.shards import Shard


@final
class FactorExchange:
    """Every rank sends the factors of its gradients to all others, which multiply them, or to a server.

    The factors of small matrices share one message. A message begins with the number of rows K of each pair, int32.
    """

    memory: Mapping[str, torch.Tensor] = MappingProxyType({})

    def __init__(self, place: Place) -> None:
        self._place = place
        self._views = place.views
        shards = [Shard(part, place.bucket.synchronizer) for part in place.bucket.slices]
        self._messages = [(together, place.gathering()) for together in factor_messages(shards)]
        self._answer = None if place.server is None else place.answer()
        self._left = 0
        """The messages of this step whose factors this rank has not multiplied yet."""

    def start(self, step: int, priority: float, done: Action) -> None:
        self._left = len(self._messages)
        for together, gathering in self._messages:
            pairs = [self._place.factors[self._place.bucket.slices[number].variable.name] for number in together]
            arrive = partial(self._multiply, together, gathering, partial(self._end, step, priority, done))
            gathering.start(step, priority, _pack(pairs), arrive)

    def _multiply(self, together: range, gathering: PartExchange, end: Action) -> None:
        if self._place.adds_up:
            views = self._views[together.start : together.stop]
            of_replicas = [_unpack(part, views) for part in gathering.in_order]
            for view, pairs in zip(views, zip(*of_replicas, strict=True), strict=True):
                left, right = (torch.cat([getattr(pair, side) for pair in pairs]) for side in ("left", "right"))
                torch.mm(left.T, right, out=view)
        self._left -= 1
        if not self._left:
            end()

    def _end(self, step: int, priority: float, done: Action) -> None:
        if self._answer is not None:
            self._answer.start(step, priority, done)
            return
        self._place.divide((0, len(self._place.array)))
        done()


def _pack(pairs: list[FactoredGradient]) -> memoryview:
    counts = torch.tensor([len(pair.left) for pair in pairs], dtype=torch.int32)
    factors = [factor.contiguous().view(-1).view(torch.uint8) for pair in pairs for factor in (pair.left, pair.right)]
    return torch.cat([counts.view(torch.uint8), *factors]).numpy().data


def _unpack(part: memoryview, views: list[torch.Tensor]) -> list[FactoredGradient]:
    """The pairs of the gradients that `views` hold."""
    counts = torch.frombuffer(part, dtype=torch.int32, count=len(views))
    # A copy, because the numbers of a message lie after the counts and may be out of line.
    numbers = torch.frombuffer(part, dtype=torch.uint8)[counts.nbytes :].clone().view(views[0].dtype)
    sizes = [int(count) * side for count, view in zip(counts, views, strict=True) for side in view.shape]
    factors = numbers.split(sizes)
    return [
        FactoredGradient(left.view(-1, view.shape[0]), right.view(-1, view.shape[1]))
        for left, right, view in zip(factors[::2], factors[1::2], views, strict=True)
    ]

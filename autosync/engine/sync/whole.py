"""Exchanges of whole gradients, as they are or cast to 16 bits on the way."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, final

from autosync.engine.sync.all_reduce import ALL_REDUCE
from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.member import Member
from autosync.engine.sync.memory import Memory
from autosync.engine.sync.wire import Wire

__all__ = ["WholeBucket", "WholeShard", "all_reduced", "flat_bucket"]


def flat_bucket(place: BucketPlace, gradients: Sequence[Sequence[Any]]) -> list[Any]:
    """Every replica's gradients (`gradients[r][s]`) as one flat array on its device."""
    import tensorflow as tf

    flat = []
    for member, parts in zip(place.members, gradients, strict=True):
        with tf.device(member.device):
            pieces = [part if part.shape.rank == 1 else tf.reshape(part, [-1]) for part in parts]
            flat.append(tf.concat(pieces, 0) if len(pieces) > 1 else pieces[0])
    return flat


def all_reduced(members: Sequence[Member], flat: Sequence[Any], algorithm: str, wire: Wire) -> list[Any]:
    """The mean of one flat array a member, on every member."""
    import tensorflow as tf

    means = []
    for member, chunks in zip(members, ALL_REDUCE[algorithm](members, flat, wire), strict=True):
        with tf.device(member.device):
            means.append(tf.concat(chunks, 0) if len(chunks) > 1 else chunks[0])
    return means


@final
class WholeBucket:
    """All-reduces the flat bucket by one of the algorithms."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: BucketPlace, algorithm: str, wire: Wire) -> None:
        self._place = place
        self._algorithm = algorithm
        self._wire = wire

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[Any]:
        return all_reduced(self._place.members, flat_bucket(self._place, gradients), self._algorithm, self._wire)


@final
class WholeShard:
    """Sums gradients on each other node first, so that they cross to the server once, then on the server."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: ServerPlace, wire: Wire) -> None:
        self._place = place
        self._wire = wire

    def mean(self, gradients: Sequence[Any]) -> Any:
        import tensorflow as tf

        server = self._place.server
        by_node: dict[str, list[tuple[str, Any]]] = {}
        for member, gradient in zip(self._place.members, gradients, strict=True):
            by_node.setdefault(member.node, []).append((member.device, gradient))
        gateways = {member.node: member.gateway for member in self._place.members}
        arriving = []
        for node, parts in by_node.items():
            if node != server.node and len(parts) > 1:
                gateway = gateways[node]
                arrived = [self._over(gradient, device, gateway) for device, gradient in parts]
                with tf.device(gateway):
                    parts = [(gateway, _sum(arrived))]
            arriving += [self._over(gradient, device, server.device) for device, gradient in parts]
        with tf.device(server.device):
            return tf.reshape(_sum(arriving) * (1.0 / len(gradients)), [-1])

    def _over(self, gradient: Any, source: str, target: str) -> Any:
        """What stays where it is is neither sent nor rounded."""
        return gradient if source == target else self._wire.over(gradient, source, target)


def _sum(tensors: Sequence[Any]) -> Any:
    """The sum in the order given. `tf.add_n` begins with whichever buffer it may reuse, so its last bit may vary."""
    return functools.reduce(operator.add, tensors)

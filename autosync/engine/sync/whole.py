"""Exchanges of whole gradients, as they are or cast to 16 bits on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.sync.all_reduce import ALL_REDUCE, Algorithm
from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.wire import Wire

__all__ = ["WholeBucket", "WholeShard", "flat_bucket"]


def flat_bucket(place: BucketPlace, gradients: Sequence[Sequence[Any]]) -> list[Any]:
    """Every replica's gradients (`gradients[r][s]`) as one flat array on its device."""
    import tensorflow as tf

    flat = []
    for member, parts in zip(place.members, gradients, strict=True):
        with tf.device(member.device):
            pieces = [tf.reshape(part, [-1]) for part in parts]
            flat.append(tf.concat(pieces, 0) if len(pieces) > 1 else pieces[0])
    return flat


@final
class WholeBucket:
    """All-reduces the flat bucket by one of the algorithms."""

    state: Sequence[Any] = ()

    def __init__(self, place: BucketPlace, algorithm: str, wire: Wire) -> None:
        self._place = place
        self._mean: Algorithm = ALL_REDUCE[algorithm]
        self._wire = wire

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[Any]:
        import tensorflow as tf

        members = self._place.members
        pieces = self._mean(members, flat_bucket(self._place, gradients), self._wire)
        means = []
        for member, chunks in zip(members, pieces, strict=True):
            with tf.device(member.device):
                means.append(tf.concat(chunks, 0) if len(chunks) > 1 else chunks[0])
        return means


@final
class WholeShard:
    """Sums gradients on each other node first, so that they cross to the server once, then on the server."""

    state: Sequence[Any] = ()

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
                    parts = [(gateway, tf.add_n(arrived))]
            arriving += [self._over(gradient, device, server.device) for device, gradient in parts]
        with tf.device(server.device):
            total = tf.add_n(arriving) if len(arriving) > 1 else arriving[0]
            return tf.reshape(total * (1.0 / len(gradients)), [-1])

    def _over(self, gradient: Any, source: str, target: str) -> Any:
        """What stays where it is is neither sent nor rounded."""
        return gradient if source == target else self._wire.over(gradient, source, target)

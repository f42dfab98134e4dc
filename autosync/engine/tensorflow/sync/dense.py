"""Exchanges of whole gradients, in full precision or cast to 16 bits on the way."""

import functools
import operator
from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.arrays import end_to_end, flat, scale
from autosync.engine.tensorflow.sync.all_reduce import ALL_REDUCE
from autosync.engine.tensorflow.sync.all_reduce.executor import mean_of_top_k
from autosync.engine.tensorflow.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.memory import ReplicaMemory
from autosync.engine.tensorflow.sync.topk_levels import KeptCounts
from autosync.engine.tensorflow.sync.wire import Wire
from autosync.layout.all_reduce import layout_of


def flat_bucket(place: BucketPlace, gradients: Sequence[Sequence[tf.Tensor]]) -> list[Any]:
    """Join every replica's gradients (`gradients[r][s]`) to one flat array on the replica's device."""
    return [
        end_to_end([flat(part, member.device) for part in parts], member.device)
        for member, parts in zip(place.members, gradients, strict=True)
    ]


def mean_by_all_reduce(
    members: Members, arrays: Sequence[tf.Tensor], algorithm: str, wire: Wire, kept: KeptCounts | None = None
) -> list[Any]:
    """All-reduce one flat array a member; return the mean on every member.

    If `kept` is given, the arrays' length is one of its counts and known only at run time.
    """
    if kept is None:
        means = ALL_REDUCE[algorithm](members, arrays, wire)
    else:
        moves = layout_of(algorithm).moves
        assert moves is not None, "a fidelity takes no collectives"
        means = mean_of_top_k(moves, members, arrays, wire, kept)
    return [end_to_end(pieces, member.device) for member, pieces in zip(members, means, strict=True)]


@final
class WholeBucket:
    """All-reduces the flat bucket by `algorithm`."""

    memories: Sequence[ReplicaMemory] = ()

    def __init__(self, place: BucketPlace, algorithm: str, wire: Wire) -> None:
        self._place = place
        self._algorithm = algorithm
        self._wire = wire

    def means(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        return ALL_REDUCE[self._algorithm](self._place.members, flat_bucket(self._place, gradients), self._wire)


@final
class WholeShard:
    """Sums gradients first on every node except the server's, so that each node sends once, and then on the server."""

    memories: Sequence[ReplicaMemory] = ()

    def __init__(self, place: ServerPlace, wire: Wire) -> None:
        self._place = place
        self._wire = wire

    def mean(self, gradients: Sequence[tf.Tensor]) -> Any:
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
            total = _sum(arriving)
        return flat(scale(total, 1.0 / len(gradients), server.device), server.device)

    def _over(self, gradient: tf.Tensor, source: str, target: str) -> Any:
        """Return the gradient on `target`; a gradient that is already there is neither sent nor rounded."""
        return gradient if source == target else self._wire.over(gradient, source, target)


def _sum(tensors: Sequence[tf.Tensor]) -> Any:
    """Sum in the given order. `tf.add_n` starts with any buffer that it can reuse, so its last bit may vary."""
    return functools.reduce(operator.add, tensors)

"""Exchanges of whole gradients, as they are or cast to 16 bits on the way."""

import functools
import operator
from collections.abc import Sequence
from typing import Any, final

from autosync.engine.arrays import end_to_end, flat, scaled
from autosync.engine.sync.all_reduce import ALL_REDUCE
from autosync.engine.sync.all_reduce.placed import mean_of_kept
from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.ladder import Kept
from autosync.engine.sync.member import Members
from autosync.engine.sync.memory import Memory
from autosync.engine.sync.wire import Wire
from autosync.layout.all_reduce import laid_out


def flat_bucket(place: BucketPlace, gradients: Sequence[Sequence[Any]]) -> list[Any]:
    """Every replica's gradients (`gradients[r][s]`) as one flat array on its device."""
    return [
        end_to_end([flat(part, member.device) for part in parts], member.device)
        for member, parts in zip(place.members, gradients, strict=True)
    ]


def all_reduced(
    members: Members, arrays: Sequence[Any], algorithm: str, wire: Wire, kept: Kept | None = None
) -> list[Any]:
    """The mean of one flat array a member, on every member; if `kept` is given, of a length that is one of its
    counts.
    """
    if kept is None:
        means = ALL_REDUCE[algorithm](members, arrays, wire)
    else:
        moves = laid_out(algorithm).moves
        assert moves is not None, "a fidelity takes no collectives"
        means = mean_of_kept(moves, members, arrays, wire, kept)
    return [end_to_end(pieces, member.device) for member, pieces in zip(members, means, strict=True)]


@final
class WholeBucket:
    """All-reduces the flat bucket by one of the algorithms."""

    memories: Sequence[Memory] = ()

    def __init__(self, place: BucketPlace, algorithm: str, wire: Wire) -> None:
        self._place = place
        self._algorithm = algorithm
        self._wire = wire

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return ALL_REDUCE[self._algorithm](self._place.members, flat_bucket(self._place, gradients), self._wire)


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
            total = _sum(arriving)
        return flat(scaled(total, 1.0 / len(gradients), server.device), server.device)

    def _over(self, gradient: Any, source: str, target: str) -> Any:
        """The gradient on `target`; what stays where it is is neither sent nor rounded."""
        return gradient if source == target else self._wire.over(gradient, source, target)


def _sum(tensors: Sequence[Any]) -> Any:
    """The sum in the order given. `tf.add_n` begins with whichever buffer it may reuse, so its last bit may vary."""
    return functools.reduce(operator.add, tensors)

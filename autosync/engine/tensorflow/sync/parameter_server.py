"""Parameter servers: a shard's values are on one device; replicas pull them and push their gradients."""

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.arrays import cut, end_to_end, flat, unflatten
from autosync.engine.tensorflow.state import AS_IT_IS, Correction, RowTable, Scalars, ValueBlock
from autosync.engine.tensorflow.sync.compressed import server_exchange
from autosync.engine.tensorflow.sync.copies import Copies
from autosync.engine.tensorflow.sync.exchange import ServerPlace
from autosync.engine.tensorflow.sync.member import Member
from autosync.engine.tensorflow.sync.row_wire import rows_at
from autosync.engine.tensorflow.sync.topk_levels import TopKLevels
from autosync.engine.tensorflow.sync.update import Update
from autosync.layout.fusion import is_elementwise, pieces_of
from autosync.layout.shards import Shard
from autosync.spec import ParameterServer


@final
class DenseServer:
    """Dense shards that are sent together, end to end in one flat array on their server.

    Replicas have copies of a synchronous server's values, which its updates fill. From a server with staleness,
    replicas pull when a step begins, because only then the version of the values is decided.
    """

    def __init__(self, place: ServerPlace, scalars: Scalars, initial: Callable[[str], Any], levels: TopKLevels) -> None:
        """`initial` returns the shards' initial values, flat and end to end, as a tensor on a device."""
        synchronizer = place.shards[0].synchronizer
        assert isinstance(synchronizer, ParameterServer)
        self.shards = place.shards
        self.member = place.server
        self.exchange = server_exchange(place, levels)
        self._members = place.members
        self._local_copy = synchronizer.local_copy
        self.sources = [member.device for member in place.members]
        self.device = scalars.device
        self.streams = is_elementwise(synchronizer)
        self.piece_sizes: tuple[int, ...] = (place.elements,)
        if self.streams:
            self.piece_sizes = pieces_of(self.shards)
        self.block = ValueBlock(scalars, initial(scalars.device), scalars.optimizer.segments(self.shards))
        self.copies = None if synchronizer.staleness else Copies(place, self._local_copy, initial)

    def pull(self, replica: int) -> list[Any]:
        """Return every shard's value for a replica."""
        device = self._members[replica].device
        parts = cut(self._value(self._members[replica]), [shard.elements for shard in self.shards], device)
        return [unflatten(part, shard.shape, device) for part, shard in zip(parts, self.shards, strict=True)]

    def _value(self, member: Member) -> Any:
        """Return the flat values of all shards for ops on `member` to read."""
        if self.copies is not None and member.device != self.block.device:
            return self.copies.read(member.device)
        value = self.block.read()
        if not self._local_copy or member.node == self.member.node:
            return value
        with tf.device(member.gateway):
            return tf.identity(value)

    def join_gradients(self, replica: int, gradients: Sequence[tf.Tensor]) -> Any:
        """Join a replica's gradients of several shards to one flat tensor; a single gradient stays unchanged."""
        if len(gradients) == 1:
            return gradients[0]
        device = self._members[replica].device
        return end_to_end([flat(gradient, device) for gradient in gradients], device)

    def pieces(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[list[Any]]:
        """Cut the replicas' gradients of all shards into pieces.

        Returns `[p][r]`: replica r's gradient of piece p, on the replica's device.
        """
        joined = [self.join_gradients(replica, parts) for replica, parts in enumerate(gradients)]
        if len(self.piece_sizes) == 1:
            return [joined]
        pieces = [
            cut(flat(gradient, device), self.piece_sizes, device)
            for device, gradient in zip(self.sources, joined, strict=True)
        ]
        return [list(of_piece) for of_piece in zip(*pieces, strict=True)]

    def push(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[Update]:
        """Return the update by the mean of the replicas' gradients (`gradients[r][s]`)."""
        return [Update(self, tuple(self.exchange.mean(of_piece) for of_piece in self.pieces(gradients)))]

    def apply(self, means: Sequence[Any], correction: Correction = AS_IT_IS) -> None:
        """Update by a mean gradient, in pieces or whole."""
        self.begin(len(means))
        for piece, mean in enumerate(means):
            self._send(self.block.update(piece, mean, correction))
        self.store()

    def begin(self, pieces: int | None = None) -> None:
        self.block.begin(self.piece_sizes if pieces is None or pieces > 1 else ())
        if self.copies is not None:
            self.copies.begin()

    def update_piece(self, piece: int, gradients: Sequence[tf.Tensor]) -> dict[str, Any]:
        """Update one piece by the mean of the replicas' gradients; return the new values that arrive, by device."""
        return self._send(self.block.update(piece, self.exchange.mean(gradients)))

    def store(self) -> None:
        self.block.store()
        if self.copies is not None:
            self.copies.store()

    def _send(self, value: tf.Tensor) -> dict[str, Any]:
        return {} if self.copies is None else self.copies.send(value)


@final
class SparseServer:
    """One shard of a sparse variable on its server. Only touched rows are sent."""

    def __init__(self, shard: Shard, scalars: Scalars, initial: Any, replicas: Sequence[str]) -> None:
        """`replicas` are the devices of the replicas, which push gradients."""
        self.shard = shard
        self.rows = RowTable(scalars, initial, scalars.optimizer.segments([shard]))
        self._replicas = tuple(replicas)

    def pull(self, replica: int, ids: tf.Tensor) -> Any:
        """Return the rows `ids` (n,), counted from the shard's first row, for a replica."""
        del replica
        return self.rows.lookup(ids)

    def push(self, ids: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> list[Update]:
        """Return the update by the mean over replicas of their row gradients."""
        arrived = rows_at(self.rows.device, self._replicas, gradients, self.shard.synchronizer.compressor)
        with tf.device(self.rows.device):
            all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(arrived, 0)
            return [Update(self.rows, self.rows.sum_by_row(all_ids, all_gradients * (1.0 / len(ids))))]

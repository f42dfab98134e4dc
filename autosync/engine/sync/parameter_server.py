"""Parameter server: a shard lives on one device; replicas pull its value and push their gradients."""

from collections.abc import Callable, Sequence
from typing import Any, final

from autosync.engine.arrays import cut, end_to_end, flat, shaped
from autosync.engine.state import AS_IT_IS, Block, Correction, Rows, Scalars
from autosync.engine.sync.compressed import server_exchange
from autosync.engine.sync.copies import Copies
from autosync.engine.sync.exchange import ServerPlace
from autosync.engine.sync.ladder import Ladder
from autosync.engine.sync.member import Member
from autosync.engine.sync.row_wire import rows_at
from autosync.engine.sync.update import Update
from autosync.layout.shards import Shard
from autosync.layout.together import is_summed_as_it_is, pieces_of
from autosync.spec import ParameterServer


@final
class DenseServer:
    """Dense shards that travel together, side by side in one flat array on their server.

    Replicas have copies of a synchronous server's values, filled by its updates; from a stale one they pull when a step
    begins, since how far it lags is decided then.
    """

    def __init__(self, place: ServerPlace, scalars: Scalars, initial: Callable[[str], Any], ladder: Ladder) -> None:
        """`initial` gives the shards' initial values, flat and end to end, as a tensor on a device."""
        synchronizer = place.shards[0].synchronizer
        assert isinstance(synchronizer, ParameterServer)
        self.shards = place.shards
        self.member = place.server
        self.exchange = server_exchange(place, ladder)
        self._members = place.members
        self._local_copy = synchronizer.local_copy
        self.sources = [member.device for member in place.members]
        self.device = scalars.device
        self.streams = is_summed_as_it_is(synchronizer)
        self.piece_sizes: tuple[int, ...] = (place.elements,)
        if self.streams:
            self.piece_sizes = pieces_of(self.shards)
        self.block = Block(scalars, initial(scalars.device), scalars.optimizer.segments(self.shards))
        self.copies = None if synchronizer.staleness else Copies(place, self._local_copy, initial)

    def pull(self, replica: int) -> list[Any]:
        """Every shard's value for a replica."""
        device = self._members[replica].device
        parts = cut(self._value(self._members[replica]), [shard.elements for shard in self.shards], device)
        return [shaped(part, shard.shape, device) for part, shard in zip(parts, self.shards, strict=True)]

    def _value(self, member: Member) -> Any:
        """The values of all shards, flat, where `member` can use them."""
        import tensorflow as tf

        if self.copies is not None and member.device != self.block.device:
            return self.copies.read(member.device)
        value = self.block.read()
        if not self._local_copy or member.node == self.member.node:
            return value
        with tf.device(member.gateway):
            return tf.identity(value)

    def joined(self, replica: int, gradients: Sequence[Any]) -> Any:
        """A replica's gradients of the shards as one: flat if they are several."""
        if len(gradients) == 1:
            return gradients[0]
        device = self._members[replica].device
        return end_to_end([flat(each, device) for each in gradients], device)

    def pieces(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """`[p][r]`: of each piece, replica r's gradient on its device, from its gradients of all shards."""
        whole = [self.joined(replica, parts) for replica, parts in enumerate(gradients)]
        if len(self.piece_sizes) == 1:
            return [whole]
        pieces = [
            cut(flat(each, device), self.piece_sizes, device) for device, each in zip(self.sources, whole, strict=True)
        ]
        return [list(each) for each in zip(*pieces, strict=True)]

    def push(self, gradients: Sequence[Sequence[Any]]) -> list[Update]:
        """The update by the mean of the replicas' gradients (`gradients[r][s]`)."""
        return [Update(self, tuple(self.exchange.mean(each) for each in self.pieces(gradients)))]

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

    def update_piece(self, piece: int, gradients: Sequence[Any]) -> dict[str, Any]:
        """Update one piece by the mean of the replicas' gradients; by device, the new value that arrives there."""
        return self._send(self.block.update(piece, self.exchange.mean(gradients)))

    def store(self) -> None:
        self.block.store()
        if self.copies is not None:
            self.copies.store()

    def _send(self, value: Any) -> dict[str, Any]:
        return {} if self.copies is None else self.copies.send(value)


@final
class SparseServer:
    """One shard of a sparse variable on its server: only touched rows travel."""

    def __init__(self, shard: Shard, scalars: Scalars, initial: Any, replicas: Sequence[str]) -> None:
        """`replicas` are the devices that push."""
        self.shard = shard
        self.rows = Rows(scalars, initial, scalars.optimizer.segments([shard]))
        self._replicas = tuple(replicas)

    def pull(self, replica: int, ids: Any) -> Any:
        """Rows `ids` (n,) for a replica, counted from the shard's first row."""
        del replica
        return self.rows.lookup(ids)

    def push(self, ids: Sequence[Any], gradients: Sequence[Any]) -> list[Update]:
        """The update by the mean over replicas of their row gradients."""
        import tensorflow as tf

        arrived = rows_at(self.rows.device, self._replicas, gradients, self.shard.synchronizer.compressor)
        with tf.device(self.rows.device):
            all_ids, all_gradients = tf.concat(list(ids), 0), tf.concat(arrived, 0)
            return [Update(self.rows, self.rows.summed(all_ids, all_gradients * (1.0 / len(ids))))]

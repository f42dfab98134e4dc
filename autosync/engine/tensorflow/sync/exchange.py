"""The interfaces of exchanges, which average the replicas' gradients of a bucket or of a server's shards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosync.engine.tensorflow.sync.member import Member, Members
from autosync.engine.tensorflow.sync.memory import ReplicaMemory
from autosync.layout.shards import Shard


@dataclass(frozen=True)
class FactorPair:
    """A matrix gradient (M, N) as A^T B: `left` is A (K, M), `right` is B (K, N); both are on their replica."""

    left: Any
    right: Any


class BucketExchange(Protocol):
    """All-reduces one bucket. `memories` hold its state between steps."""

    memories: Sequence[ReplicaMemory]

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Average `gradients[r][s]`: replica r's gradient of shard s on its device, or a `FactorPair` for factors.

        Returns the mean of the bucket on every replica's device, with the same bits on all, as flat pieces that form
        the bucket end to end.
        """
        ...


class ServerExchange(Protocol):
    """Sends the gradients of a server's shards to the server. `memories` hold its state between steps."""

    memories: Sequence[ReplicaMemory]

    def mean(self, gradients: Sequence[Any]) -> Any:
        """Average `gradients[r]`, replica r's gradient on its device; return the flat mean on the server."""
        ...


@dataclass(frozen=True)
class BucketPlace:
    """The place of a bucket: its shards, in the order of the flat array, and the replicas."""

    shards: tuple[Shard, ...]
    members: Members

    @property
    def elements(self) -> int:
        return sum(shard.elements for shard in self.shards)

    @property
    def dtype(self) -> str:
        return self.shards[0].variable.dtype


@dataclass(frozen=True)
class ServerPlace:
    """The place of a server's shards: the shards that are sent together, the server, and the replicas."""

    shards: tuple[Shard, ...]
    server: Member
    members: Sequence[Member]

    @property
    def shard(self) -> Shard:
        """The only shard. A compressor that works on single shards has one shard a place."""
        (shard,) = self.shards
        return shard

    @property
    def elements(self) -> int:
        return sum(shard.elements for shard in self.shards)

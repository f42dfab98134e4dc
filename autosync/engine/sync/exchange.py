"""Exchanges: how replicas' gradients of a bucket, or of a server's shard, become their mean. Chosen by compressor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosync.engine.sync.member import Member, Members
from autosync.engine.sync.memory import Memory
from autosync.layout.shards import Shard


@dataclass(frozen=True)
class FactorPair:
    """A matrix gradient (M, N) as A^T B: `left` A is (K, M), `right` B is (K, N); both on their replica."""

    left: Any
    right: Any


class BucketExchange(Protocol):
    """All-reduces one bucket. What it remembers between steps is in `memories`."""

    memories: Sequence[Memory]

    def means(self, gradients: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """`gradients[r][s]`: replica r's gradient of shard s, on its device (a `FactorPair` with such a compressor).

        Returns for every replica the mean of the bucket on its device, in flat pieces to be put end to end; the same
        bits on all.
        """
        ...


class ServerExchange(Protocol):
    """Brings gradients of shards that travel together to their server; `memories` is what it remembers of a step."""

    memories: Sequence[Memory]

    def mean(self, gradients: Sequence[Any]) -> Any:
        """`gradients[r]`: replica r's gradient of the shards, on its device. The mean, flat, on the server."""
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
    """The place of a server's shards: those that travel together, the server, and the replicas."""

    shards: tuple[Shard, ...]
    server: Member
    members: Sequence[Member]

    @property
    def shard(self) -> Shard:
        """The only shard, as there is but one where a compressor works on a shard."""
        (shard,) = self.shards
        return shard

    @property
    def elements(self) -> int:
        return sum(shard.elements for shard in self.shards)

"""What a shard that changes kind finds around it: the loads of servers and the buckets that are ready near it."""

import random
from bisect import bisect_left
from functools import cached_property
from typing import TypeAlias, final

from autosync.space.buckets import ReducedShard, reduced_shards
from autosync.space.domain import Domain, Draft
from autosync.space.domains import Domains
from autosync.space.placement import lightest, server_loads
from autosync.spec import AllReduce, Compressor, ParameterServer

NEW_BUCKET_CHANCE = 0.25
FRESH = 1_000_000
"""The first of the numbers for new groups, which are renumbered when the strategy is made."""

_Family: TypeAlias = tuple[str, bool, Compressor | None]
"""What shards have alike that may share a bucket once its algorithm is settled: dtype, whether sparse, compressor."""


def nearest_shard(shards: list[ReducedShard], position: float) -> ReducedShard:
    """The shard whose position is nearest; `shards` are in ready order and not empty."""
    right = bisect_left(shards, position, key=lambda shard: shard.position)
    near = shards[max(0, right - 1) : right + 1]
    return min(near, key=lambda shard: abs(shard.position - position))


@final
class Surroundings:
    """A draft as one move finds it; looked up once a move, however many variables the move decides anew."""

    def __init__(self, domains: Domains, draft: Draft, rng: random.Random) -> None:
        self._domains = domains
        self._draft = draft
        self._rng = rng
        self._new_groups: dict[_Family, int | None] = {}

    def server(
        self,
        domain: Domain,
        part_bytes: float,
        local_copy: bool,
        compressor: Compressor | None = None,
        whole: bool = True,
    ) -> ParameterServer:
        """The least loaded server for a shard of `part_bytes`, which then counts as loaded with it.

        Without the rule `load_balancing` it is any server.
        """
        balanced = "load_balancing" in self._domains.knowledge
        device = lightest(domain, self._loads, self._rng) if balanced else self._rng.choice(domain.devices)
        self._loads[device] += part_bytes
        return domain.on(device, local_copy, compressor, whole)

    def bucket(self, domain: Domain, compressor: Compressor | None = None, whole: bool = True) -> AllReduce:
        """The bucket ready nearest; now and then, or where there is none, one new bucket for the whole move."""
        wanted = domain.reducing(0, "ring", compressor, whole)
        family = (domain.variable.dtype, domain.variable.sparse, wanted.compressor)
        shards = self._shards.get(family, [])
        if family not in self._new_groups:
            fresh = not shards or self._rng.random() < NEW_BUCKET_CHANCE
            self._new_groups[family] = FRESH + len(self._new_groups) if fresh else None
        position = self._domains.positions[self._domains.index_of[domain.variable.name]]
        near = nearest_shard(shards, position) if shards else None
        group = self._new_groups[family]
        algorithm = near.kind.algorithm if near else wanted.algorithm
        return domain.reducing(near.group if group is None and near else group or 0, algorithm, compressor, whole)

    @cached_property
    def _loads(self) -> dict[str, float]:
        return server_loads(self._domains, self._draft)

    @cached_property
    def _shards(self) -> dict[_Family, list[ReducedShard]]:
        families: dict[_Family, list[ReducedShard]] = {}
        for shard in reduced_shards(self._domains, self._draft):
            family = (shard.kind.dtype, shard.kind.sparse, shard.kind.compressor)
            families.setdefault(family, []).append(shard)
        return families

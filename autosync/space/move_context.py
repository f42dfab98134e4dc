"""The context of a shard that changes kind: loads of servers, and buckets with a similar ready order."""

import random
from bisect import bisect_left
from functools import cached_property
from typing import TypeAlias, final

from autosync.space.buckets import ReducedShard, all_reduced_shards
from autosync.space.domain import Domain, Draft
from autosync.space.domains import Domains
from autosync.space.placement import lightest, server_loads
from autosync.spec import AllReduce, Compressor, ParameterServer

NEW_BUCKET_CHANCE = 0.25
FRESH = 1_000_000
"""The first number of new groups, above all used ones; groups are renumbered when the strategy is built."""

_Family: TypeAlias = tuple[str, bool, Compressor | None]
"""Dtype, sparseness and compressor: shards of one family can share a bucket with any algorithm."""


def nearest_shard(shards: list[ReducedShard], position: float) -> ReducedShard:
    """The shard whose position is nearest; `shards` are in ready order and not empty."""
    right = bisect_left(shards, position, key=lambda shard: shard.position)
    near = shards[max(0, right - 1) : right + 1]
    return min(near, key=lambda shard: abs(shard.position - position))


@final
class MoveContext:
    """Loads and buckets of a draft before a move, computed once per move for all variables that the move changes."""

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
        """Return the least loaded server for a shard of `part_bytes`, and add the bytes to its load.

        Without the rule `load_balancing`, return any server.
        """
        balanced = "load_balancing" in self._domains.knowledge
        device = lightest(domain, self._loads, self._rng) if balanced else self._rng.choice(domain.devices)
        self._loads[device] += part_bytes
        return domain.on(device, local_copy, compressor, whole)

    def bucket(self, domain: Domain, compressor: Compressor | None = None, whole: bool = True) -> AllReduce:
        """The bucket with the nearest ready order; sometimes, or if there is none, a new bucket for the whole move."""
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
        for shard in all_reduced_shards(self._domains, self._draft):
            family = (shard.kind.dtype, shard.kind.sparse, shard.kind.compressor)
            families.setdefault(family, []).append(shard)
        return families

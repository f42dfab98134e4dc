"""What a shard that changes kind finds around it: the loads of servers and the buckets that are ready near it."""

from __future__ import annotations

import random
from bisect import bisect_left
from functools import cached_property
from typing import final

from autosync.space.buckets import ReducedShard, reduced_shards
from autosync.space.domain import BucketKind, Domain, Domains, Draft, all_reduce
from autosync.space.placement import lightest, server_loads
from autosync.spec import AllReduce, ParameterServer

__all__ = ["Surroundings", "nearest_group"]

NEW_BUCKET_CHANCE = 0.25
FRESH = 1_000_000
"""Groups from here on are new ones; they are renumbered when the strategy is made."""


def nearest_group(shards: list[ReducedShard], position: float) -> int:
    """The group of the shard whose position is nearest; `shards` are in ready order and not empty."""
    right = bisect_left(shards, position, key=lambda shard: shard.position)
    near = shards[max(0, right - 1) : right + 1]
    return min(near, key=lambda shard: abs(shard.position - position)).group


@final
class Surroundings:
    """A draft as one move finds it; looked up once a move, however many variables the move decides anew."""

    def __init__(self, domains: Domains, draft: Draft, rng: random.Random) -> None:
        self._domains = domains
        self._draft = draft
        self._rng = rng
        self._new_groups: dict[BucketKind, int | None] = {}

    def server(self, domain: Domain, part_bytes: float, local_copy: bool) -> ParameterServer:
        """The least loaded server for a shard of `part_bytes`, which then counts as loaded with it."""
        device = lightest(domain, self._loads, self._rng)
        self._loads[device] += part_bytes
        return domain.on(device, local_copy)

    def bucket(self, domain: Domain) -> AllReduce:
        """The bucket ready nearest; now and then, or where the kind has none, one new bucket for the whole move."""
        kind = domain.bucket_kind
        shards = self._shards.get(kind, [])
        if kind not in self._new_groups:
            fresh = not shards or self._rng.random() < NEW_BUCKET_CHANCE
            self._new_groups[kind] = FRESH + len(self._new_groups) if fresh else None
        group = self._new_groups[kind]
        return all_reduce(nearest_group(shards, domain.variable.ready_order) if group is None else group)

    @cached_property
    def _loads(self) -> dict[str, float]:
        return server_loads(self._domains, self._draft)

    @cached_property
    def _shards(self) -> dict[BucketKind, list[ReducedShard]]:
        by_kind: dict[BucketKind, list[ReducedShard]] = {}
        for shard in reduced_shards(self._domains, self._draft):
            by_kind.setdefault(shard.kind, []).append(shard)
        return by_kind

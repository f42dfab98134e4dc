"""Mutation: one to three random moves on a draft."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from autosync.space.bucket_moves import merge_buckets, rebucket, shift_bucket_boundary, split_bucket
from autosync.space.domain import Draft
from autosync.space.domains import Domains
from autosync.space.exchange_moves import (
    change_algorithm,
    change_algorithms,
    change_staleness,
    compress_alike,
    compress_big,
    compress_one,
)
from autosync.space.server_moves import move_shard, rebalance, relieve_heaviest
from autosync.space.variable_moves import (
    flip_alike,
    flip_big,
    flip_one,
    flip_some_shards,
    recut_alike,
    recut_big,
    recut_one,
    toggle_local_copies,
    toggle_local_copy,
)

__all__ = ["MOVES", "Move", "moved", "perturbed"]

Move: TypeAlias = Callable[[Domains, Draft, random.Random], Draft | None]
"""Gives a changed draft, or None where it does not apply. It may leave too many buckets; see `within_limits`."""

MOVES: tuple[Move, ...] = (
    flip_one,
    flip_alike,
    flip_big,
    flip_some_shards,
    recut_one,
    recut_alike,
    recut_big,
    toggle_local_copy,
    toggle_local_copies,
    merge_buckets,
    split_bucket,
    shift_bucket_boundary,
    rebucket,
    relieve_heaviest,
    move_shard,
    rebalance,
    change_algorithm,
    change_algorithms,
    compress_one,
    compress_alike,
    compress_big,
    change_staleness,
)

FOLLOWS_FROM: Mapping[Move, str] = {
    relieve_heaviest: "load_balancing",
    flip_alike: "common_decisions",
    flip_big: "common_decisions",
    recut_alike: "common_decisions",
    recut_big: "common_decisions",
    toggle_local_copies: "common_decisions",
    change_algorithms: "common_decisions",
    compress_alike: "common_decisions",
    compress_big: "common_decisions",
}
"""Moves that are nothing but a rule of `KNOWLEDGE` at work, each with the name of that rule."""


def moved(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """The draft after one random move that applies; unchanged where none does."""
    for move in rng.sample(MOVES, len(MOVES)):
        rule = FOLLOWS_FROM.get(move)
        if rule is not None and rule not in domains.knowledge:
            continue
        result = move(domains, draft, rng)
        if result is not None and result != draft:
            return result
    return draft


def perturbed(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """The draft after one move, or now and then two or three."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        draft = moved(domains, draft, rng)
    return draft

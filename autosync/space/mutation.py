"""Mutation: one to three random moves on a draft."""

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from autosync.space import bucket_moves, exchange_moves, server_moves, variable_moves
from autosync.space.domain import Draft
from autosync.space.domains import Domains

Move: TypeAlias = Callable[[Domains, Draft, random.Random], Draft | None]
"""Gives a changed draft, or None where it does not apply. It may leave too many buckets; see `within_limits`."""

MOVES: tuple[Move, ...] = (
    variable_moves.flip_one,
    variable_moves.flip_alike,
    variable_moves.flip_big,
    variable_moves.flip_some_shards,
    variable_moves.recut_one,
    variable_moves.recut_alike,
    variable_moves.recut_big,
    variable_moves.toggle_local_copy,
    variable_moves.toggle_local_copies,
    bucket_moves.merge_buckets,
    bucket_moves.split_bucket,
    bucket_moves.shift_bucket_boundary,
    bucket_moves.rebucket,
    server_moves.relieve_heaviest,
    server_moves.move_shard,
    server_moves.rebalance,
    exchange_moves.change_algorithm,
    exchange_moves.change_algorithms,
    exchange_moves.compress_one,
    exchange_moves.compress_alike,
    exchange_moves.compress_big,
    exchange_moves.change_staleness,
)

FOLLOWS_FROM: Mapping[Move, str] = {
    server_moves.relieve_heaviest: "load_balancing",
    variable_moves.flip_alike: "common_decisions",
    variable_moves.flip_big: "common_decisions",
    variable_moves.recut_alike: "common_decisions",
    variable_moves.recut_big: "common_decisions",
    variable_moves.toggle_local_copies: "common_decisions",
    exchange_moves.change_algorithms: "common_decisions",
    exchange_moves.compress_alike: "common_decisions",
    exchange_moves.compress_big: "common_decisions",
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

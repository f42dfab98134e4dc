"""Mutation: one to three random moves on a draft."""

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from autosync.space import bucket_moves, exchange_moves, server_moves, variable_moves
from autosync.space.domain import Draft
from autosync.space.domains import Domains

Move: TypeAlias = Callable[[Domains, Draft, random.Random], Draft | None]
"""Returns a changed draft, or None if the move does not apply. The draft may hold too many buckets; see
`within_limits`."""

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
"""Moves that only apply a rule of `KNOWLEDGE`, with the name of the rule. Without the rule, the move is not made."""


def random_move(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """The draft after a random move that applies; unchanged if none applies."""
    for move in rng.sample(MOVES, len(MOVES)):
        rule = FOLLOWS_FROM.get(move)
        if rule is not None and rule not in domains.knowledge:
            continue
        result = move(domains, draft, rng)
        if result is not None and result != draft:
            return result
    return draft


def mutate_draft(domains: Domains, draft: Draft, rng: random.Random) -> Draft:
    """The draft after one move, sometimes two or three."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        draft = random_move(domains, draft, rng)
    return draft

"""Tied tables whose looked-up rows are sent apart: draws and moves of this decision.

A draft does not hold this decision, because moves replace whole decisions; functions take the names of the tables, too.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import combinations

from autosync.space.domain import Draft, all_reduce
from autosync.space.domains import Domains
from autosync.space.move_context import FRESH
from autosync.spec import AllReduce, VariableStrategy

Tables = frozenset[str]
"""Names of the tables whose rows are sent apart."""

FLIP_CHANCE = 0.1
"""The chance that a mutation sends the rows of a tied table apart, or together with the rest again."""


def all_rows_apart(domains: Domains) -> Iterator[Tables]:
    """Every choice of tables, none first."""
    for count in range(len(domains.tied) + 1):
        yield from map(frozenset, combinations(domains.tied, count))


def draw_rows_apart(domains: Domains, rng: random.Random) -> Tables:
    """Draw for each tied table whether its rows are sent apart, half of the time."""
    return frozenset(name for name in domains.tied if rng.random() < 0.5)


def mutate_rows_apart(
    domains: Domains, draft: Draft, tables: Tables, rng: random.Random
) -> tuple[Draft, Tables] | None:
    """Now and then, change the decision on one table; else None.

    A table whose rows go apart also leaves the buckets of other variables, half of the time, because their gradients
    may be ready later.
    """
    if not domains.tied or rng.random() >= FLIP_CHANCE:
        return None
    name = rng.choice(domains.tied)
    if name in tables:
        return draft, tables - {name}
    return (in_own_buckets(domains, draft, name) if rng.random() < 0.5 else draft), tables | {name}


def cross_rows_apart(first: Collection[str], second: Collection[str], domains: Domains, rng: random.Random) -> Tables:
    """Take either parent's decision for each tied table."""
    return frozenset(
        name for name in domains.tied if (name in first if (name in first) == (name in second) else rng.random() < 0.5)
    )


def in_own_buckets(domains: Domains, draft: Draft, name: str) -> Draft:
    """The draft with the all-reduced shards of a variable in buckets without other variables."""
    index = domains.index_of[name]
    shards = tuple(
        all_reduce(FRESH + shard.group, shard.algorithm, shard.compressor) if isinstance(shard, AllReduce) else shard
        for shard in draft[index].shards
    )
    return [*draft[:index], replace(draft[index], shards=shards), *draft[index + 1 :]]


def with_rows_apart(draft: Draft, tables: Collection[str]) -> list[VariableStrategy]:
    """The decisions of a draft, with the rows of these tables apart, and of no other variable."""
    return [
        replace(decision, rows_apart=not decision.rows_apart)
        if decision.rows_apart != (decision.variable in tables)
        else decision
        for decision in draft
    ]

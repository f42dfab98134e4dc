"""The pool has the methods of a search space, restricted to strategies that were timed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from autosync.search.pool_space import PoolSpace
from autosync.search.protocol import run_search
from autosync.space import SearchSpace
from autosync.tune.composing import make_searcher
from autosync.tune.options import SEARCHERS, TuneOptions
from autosync.tune.recorded.table import RecordedTable
from tests.cover import crossed
from tests.tune.recorded.examples import cell

CELL = cell()
MEMBERS = tuple(CELL.trials)
POOL = PoolSpace(CELL.space, MEMBERS)


def test_it_has_everything_that_a_search_space_has() -> None:
    public = {name for name in dir(SearchSpace) if not name.startswith("_")} | set(SearchSpace.__dataclass_fields__)
    assert public <= set(dir(POOL))


def test_it_holds_its_members_once_and_nothing_else() -> None:
    assert list(POOL.enumerate()) == list(MEMBERS)
    assert POOL.size == len(MEMBERS) == len(set(MEMBERS))
    assert all(map(POOL.contains, MEMBERS))
    assert POOL.is_small()


def test_a_strategy_that_was_not_timed_is_outside_and_it_says_why() -> None:
    rng = random.Random(9)
    stranger = next(strategy for strategy in iter(lambda: CELL.space.sample(rng), None) if strategy not in MEMBERS)
    assert POOL.why_not(MEMBERS[0]) is None
    assert (
        POOL.why_not(stranger) == f"Strategy {stranger.digest} was not timed; the pool holds {len(MEMBERS)} that were."
    )


def test_all_that_it_gives_are_members() -> None:
    rng = random.Random(0)
    for _ in range(40):
        first, second = POOL.sample(rng), POOL.sample(rng)
        proposed = (
            POOL.mutate(first, rng),
            POOL.crossover(first, second, rng),
            POOL.adopt(CELL.space.sample(rng), rng),
        )
        assert set(proposed) <= set(MEMBERS)


def test_a_mutation_is_another_member_and_a_child_is_none_of_its_parents() -> None:
    rng = random.Random(1)
    for first, second in itertools.pairwise(MEMBERS):
        assert POOL.mutate(first, rng) != first
        assert POOL.crossover(first, second, rng) not in (first, second)


def test_samples_reach_every_member() -> None:
    rng = random.Random(2)
    assert {POOL.sample(rng) for _ in range(40 * len(MEMBERS))} == set(MEMBERS)


def test_only_open_members_are_given_while_there_are_any() -> None:
    is_open = set(MEMBERS[:3])
    pool, rng = PoolSpace(CELL.space, MEMBERS, is_open.__contains__), random.Random(3)
    assert {pool.sample(rng) for _ in range(60)} == is_open
    assert {pool.mutate(member, rng) for member in MEMBERS} <= is_open
    assert {pool.adopt(member, rng) for member in MEMBERS} <= is_open
    is_open.clear()
    assert pool.sample(rng) in MEMBERS


def test_a_member_is_nearest_to_itself() -> None:
    assert [POOL.adopt(member, random.Random(0)) for member in MEMBERS] == list(MEMBERS)


def test_same_arguments_same_strategy() -> None:
    def drawn(pool: PoolSpace) -> list[str]:
        rng = random.Random(4)
        return [strategy.digest for _ in range(9) for strategy in (pool.sample(rng), pool.mutate(MEMBERS[0], rng))]

    assert drawn(POOL) == drawn(PoolSpace(CELL.space, MEMBERS))


@pytest.mark.parametrize(("begins", "name"), crossed(["with baselines", "with none"], SEARCHERS))
def test_every_searcher_times_every_member_once_and_then_ends(begins: str, name: str) -> None:
    table = RecordedTable(CELL, 0)
    pool = PoolSpace(CELL.space, MEMBERS, table.is_open)
    options = TuneOptions.create(model="mlp", out=Path("out"), searcher=name, simulator="analytic")
    baselines = list(CELL.baselines) if begins == "with baselines" else []
    searcher = make_searcher(options, pool, baselines)  # type: ignore[arg-type]
    records = run_search(searcher, table, 10_000)
    assert sorted(record.strategy.digest for record in records) == sorted(strategy.digest for strategy in MEMBERS)
    first = {record.label for record in records[: 3 if name == "guided" else len(CELL.baselines)]}
    assert (first <= {label for label, _ in CELL.baselines}) == bool(baselines)

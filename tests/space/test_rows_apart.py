"""Looked-up rows of tied tables that are sent apart: a decision of spaces on engines that carry it out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from autosync.space import EVERYTHING, Rule, Servers, Space
from autosync.spec import AllReduce, Strategy, VariableStrategy, strategy_faults
from search_spaces.ddp import SPACE as DDP
from search_spaces.default import SPACE as DEFAULT
from search_spaces.lossy import SPACE as LOSSY
from search_spaces.tiny import SPACE as TINY
from tests import cases

MODEL, CLUSTER = cases.tied_model(), cases.star_cluster(3)
TABLE = "table"
SERVED = Space("served", (Rule(EVERYTHING, Servers("first"), all_reduce=True),), max_buckets=2)


@pytest.mark.parametrize("declared", [DEFAULT, LOSSY], ids=lambda space: space.name)
def test_every_way_to_a_strategy_finds_both_decisions(declared: Space) -> None:
    space, rng = declared.bind(MODEL, CLUSTER, engine_overlaps=True, engine_sends_rows_apart=True), random.Random(1)
    found = [space.sample(rng) for _ in range(40)]
    for start in list(found):
        found += [
            space.mutate(start, rng),
            space.crossover(start, rng.choice(found), rng),
            *space.with_other_rows(start),
        ]
        found.append(space.relieve(start, {TABLE: 0.9, "bias": 0.1}, (), rng))
    assert {strategy.rows_apart for strategy in found} == {(), (TABLE,)}
    for strategy in found:
        assert space.why_not(strategy) is None
        assert not list(strategy_faults(strategy, MODEL, CLUSTER))
        assert space.adopt(strategy, rng) == strategy


def test_the_other_decision_is_in_the_same_buckets_or_in_its_own() -> None:
    space = DEFAULT.bind(MODEL, CLUSTER, engine_sends_rows_apart=True)
    bucket = tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in MODEL.variables)
    start = space.canonical(Strategy(space.replicas, bucket))
    same, own = space.with_other_rows(start)
    assert same.by_name[TABLE] == replace(start.by_name[TABLE], rows_apart=True)
    groups = {name: decision.shards[0].group for name, decision in own.by_name.items()}  # type: ignore[union-attr]
    assert groups["hidden"] == groups["bias"] != groups[TABLE]
    assert start in space.with_other_rows(same)


def test_other_engines_models_and_spaces_send_rows_together() -> None:
    apart = DEFAULT.bind(MODEL, CLUSTER, engine_sends_rows_apart=True)
    rng = random.Random(0)
    split = next(strategy for strategy in iter(lambda: apart.sample(rng), None) if strategy.rows_apart)
    for space in (
        DEFAULT.bind(MODEL, CLUSTER),
        DEFAULT.bind(replace(MODEL, profile=None), CLUSTER, engine_sends_rows_apart=True),
        DDP.bind(MODEL, CLUSTER, engine_sends_rows_apart=True),
    ):
        assert space.domains.tied == ()
        assert space.with_other_rows(split) == ()
    assert DEFAULT.bind(MODEL, CLUSTER).why_not(split) == (
        "The looked-up rows of variable 'table' are sent apart; the space offers to send them together."
    )
    adopted = DEFAULT.bind(MODEL, CLUSTER).adopt(split, rng)
    assert adopted.rows_apart == ()


def test_a_space_without_the_decision_draws_as_before() -> None:
    plain = replace(MODEL, profile=replace(MODEL.profile, uses=None))  # type: ignore[arg-type]
    spaces = [DEFAULT.bind(plain, CLUSTER, True), DEFAULT.bind(plain, CLUSTER, True, engine_sends_rows_apart=True)]
    drawn = []
    for space in spaces:
        rng = random.Random(3)
        strategies = [space.sample(rng) for _ in range(10)]
        drawn.append([*strategies, *(space.mutate(strategy, rng) for strategy in strategies)])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("declared", [TINY, SERVED], ids=lambda space: space.name)
def test_a_small_space_is_counted_and_enumerated_with_both_decisions(declared: Space) -> None:
    cluster = cases.local_cluster(2)
    together, both = (declared.bind(MODEL, cluster, True, sends) for sends in (False, True))
    assert 10**both.log10_size == pytest.approx(2 * 10**together.log10_size)
    strategies = list(both.enumerate())
    assert len(strategies) == len(set(strategies)) == both.size
    assert {strategy for strategy in strategies if not strategy.rows_apart} == set(together.enumerate())
    assert sum(bool(strategy.rows_apart) for strategy in strategies) == len(list(together.enumerate()))

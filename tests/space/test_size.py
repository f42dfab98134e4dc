"""Exact counts of strategies, and enumeration of small spaces."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autosync.errors import SpaceError
from autosync.space import (
    ALGORITHMS,
    LOSSLESS,
    Cast,
    Cut,
    PerServer,
    Rule,
    SearchSpace,
    Servers,
    Space,
    TopK,
    VariableFilter,
)
from autosync.space.enumeration import all_drafts
from autosync.space.size import count_strategies
from autosync.spec import ModelSpec, Strategy, Variable
from search_spaces.default import SPACE as DEFAULT
from search_spaces.tiny import SPACE as TINY
from tests import cases


def model_of(kinds: list[str]) -> ModelSpec:
    """A model of 4x1 variables (4x4 if factored), each `float32`, `float16`, `sparse` or `factored`."""
    variables = tuple(
        Variable(
            f"v{index}",
            (4, 4 if factors else 1),
            kind if kind == "float16" else "float32",
            index,
            kind == "sparse",
            rows,
            factors,
        )
        for index, kind in enumerate(kinds)
        for rows, factors in [(1.0, None) if kind == "sparse" else (None, 1 if kind == "factored" else None)]
    )
    return ModelSpec("small", 1, "SGD", 0, variables)


def bind(kinds: list[str], max_buckets: int, *rules: Rule, workers: int = 2) -> SearchSpace:
    return Space("small", rules, max_buckets).bind(model_of(kinds), cases.local_cluster(workers))


EITHER = Rule(servers=Servers(), all_reduce=True)
REDUCED = Rule(all_reduce=True)


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (bind(["float32"] * 3, 1, REDUCED), 1),
        (bind(["float32"] * 3, 2, REDUCED), 4),
        (bind(["float32"] * 3, 9, REDUCED), 5),
        (bind(["float32"] * 2, 1, EITHER), 9),
        (bind(["float32"] * 2, 2, EITHER), 10),
        (bind(["float32", "float16"], 1, REDUCED), 1),
        (bind(["float32", "sparse"], 1, EITHER), 9),
        (bind(["float32"], 1, Rule(servers=Servers(), cut=Cut((1, 2), min_shard_bytes=1))), 2 + 4),
        (bind(["float32"], 2, Rule(all_reduce=True, cut=Cut((1, 2), min_shard_bytes=1))), 1 + 2),
    ],
)
def test_small_spaces_have_the_size_one_counts_by_hand(space: SearchSpace, count: int):
    assert math.isclose(space.log10_size, math.log10(count), abs_tol=1e-12)


@st.composite
def small_spaces(draw: st.DrawFn) -> SearchSpace:
    kinds = draw(st.lists(st.sampled_from(["float32", "float16", "sparse", "factored"]), min_size=1, max_size=3))

    def rule(where: VariableFilter) -> Rule:
        reduced = draw(st.booleans())
        servers = Servers(draw(st.sampled_from(["all", "first"]))) if not reduced or draw(st.booleans()) else None
        counts = draw(st.sampled_from([(1,), (2,), (1, 2), (1, 3)]))
        algorithms = draw(st.sampled_from([("ring",), ("ring", "tree"), ("tree", "halving_doubling")]))
        compressors = draw(st.sampled_from([(None,), (Cast("bf16"),), (None, Cast("fp16"), TopK(0.5)), LOSSLESS]))
        mixed = draw(st.booleans())
        return Rule(where, servers, reduced, Cut(counts, min_shard_bytes=1), mixed, algorithms, compressors)

    rules = (rule(VariableFilter(named=("v0",))), rule(VariableFilter()))
    staleness = (0, 2) if all(rule.servers and None in rule.compressors for rule in rules) else (0,)
    declared = Space("small", rules, draw(st.integers(1, 3)), staleness=staleness, changes_statistics=True)
    space = declared.bind(model_of(kinds), cases.local_cluster(draw(st.sampled_from([2, 3]))))
    assume(count_strategies(space.domains) <= 1000)
    return space


@given(small_spaces())
def test_the_count_is_the_number_of_different_drafts(space: SearchSpace):
    drafts = [Strategy(space.replicas, tuple(draft)).digest for draft in all_drafts(space.domains)]
    assert len(set(drafts)) == len(drafts) == count_strategies(space.domains)


@given(small_spaces())
def test_enumeration_gives_each_canonical_strategy_once(space: SearchSpace):
    strategies = list(space.enumerate())
    assert len({strategy.digest for strategy in strategies}) == len(strategies) == space.size
    assert all(space.contains(strategy) and space.canonical(strategy) is strategy for strategy in strategies)
    canonical = {space.canonical(Strategy(space.replicas, tuple(draft))).digest for draft in all_drafts(space.domains)}
    assert {strategy.digest for strategy in strategies} == canonical


def test_devices_that_are_alike_are_enumerated_once():
    space = bind(["float32"] * 2, 1, Rule(servers=Servers()), workers=4)
    assert math.isclose(space.log10_size, math.log10(16))
    assert space.size == 2  # both on one server, or on two


def test_the_tiny_space_of_an_mlp_is_tried_out_whole():
    space = TINY.bind(cases.mlp_model(), cases.local_cluster())
    assert space.is_small()
    assert space.size == len(list(space.enumerate())) == 8


def test_a_big_space_is_not_enumerated():
    space = DEFAULT.bind(cases.bert_like_model(), cases.local_cluster())
    assert not space.is_small()
    assert space.size is None
    message = r"Space 'default' holds 10\^\d+\.\d strategies for model 'bert-like'; only up to 4096 are enumerated\. "
    with pytest.raises(SpaceError, match=message + re.escape("Sample it instead.")):
        space.enumerate()


def test_the_size_of_a_space_with_thousands_of_shards_is_still_exact_and_finite():
    rule = Rule(servers=Servers(), all_reduce=True, cut=Cut((1, PerServer(16)), min_shard_bytes=1), mixed_shards=True)
    space = Space("huge", (rule,), 64).bind(cases.bert_like_model(), cases.local_cluster())
    assert 5000 < space.log10_size < 1e6


def test_two_buckets_of_each_algorithm_are_told_apart_by_it_alone():
    rule = Rule(all_reduce=True, algorithms=("ring", "tree"))
    # Both in one bucket (of either kind), in two of one kind, or one in each.
    assert bind(["float32"] * 2, 2, rule, workers=3).log10_size == pytest.approx(math.log10(2 + 2 + 2))


def test_a_sum_too_long_to_take_is_about_its_largest_term():
    narrow = Rule(VariableFilter(named=("v0", "v1", "v2", "v3")), all_reduce=True, algorithms=ALGORITHMS)
    wide = Rule(all_reduce=True, algorithms=ALGORITHMS, compressors=(None, Cast("bf16")))
    space = Space("s", (narrow, wide), 12, changes_statistics=True)
    bound = space.bind(model_of(["float32"] * 24), cases.local_cluster(4))
    with_sum = pytest.MonkeyPatch.context()
    with with_sum as patch:
        patch.setattr("autosync.space.size.MOST_TERMS", 10**9)
        exact = math.log10(count_strategies(bound.domains))
    assert exact - 2.5 < bound.log10_size <= exact


def test_the_effective_dimension_is_the_number_of_variables_when_all_have_as_many_choices() -> None:
    alike = bind(["float32"] * 5, 3, EITHER)
    assert alike.decided_variables == 5
    assert alike.effective_dimension == pytest.approx(5.0)


def test_variables_without_a_choice_are_no_dimension() -> None:
    space = bind(["float32", "float32", "sparse"], 1, Rule(VariableFilter(sparse=True), servers=Servers()), REDUCED)
    assert (space.decided_variables, space.effective_dimension) == (1, pytest.approx(1.0))
    assert bind(["float32"] * 3, 1, REDUCED).effective_dimension == 0.0


def test_uneven_choices_make_fewer_dimensions_than_variables() -> None:
    """ln 2 and ln 6 of choices: (1 + 2.585)^2 / (1 + 2.585^2) in units of ln 2."""
    cut = Rule(VariableFilter(over_bytes=32), servers=Servers(), cut=Cut((1, 2), min_shard_bytes=1))
    space = bind(["factored", "float32"], 1, cut, Rule(servers=Servers()))
    assert space.effective_dimension == pytest.approx((1 + math.log2(6)) ** 2 / (1 + math.log2(6) ** 2))

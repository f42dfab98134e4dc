"""Steps that overlap with the next forward pass: a decision of spaces on engines that carry it out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosync.space import EVERYTHING, Cast, Cut, PerServer, Rule, SearchSpace, Servers, Space, VariableFilter
from autosync.space.enumeration import all_drafts
from autosync.space.overlap import can_overlap, small_bucket_drafts
from autosync.space.relief_moves import weigh_by_urgency
from autosync.space.windows import read_order, urgencies
from autosync.spec import (
    AllReduce,
    ModelProfile,
    ModelSpec,
    Strategy,
    SufficientFactors,
    Synchronizer,
    Variable,
    VariableStrategy,
    strategy_faults,
)
from search_spaces.bert import SPACE as BERT
from search_spaces.ddp import SPACE as DDP
from search_spaces.default import SPACE as DEFAULT
from search_spaces.lossy import SPACE as LOSSY
from search_spaces.tiny import SPACE as TINY
from tests import cases

MODEL, CLUSTER = cases.bert_like_model(1), cases.star_cluster(4)
SPACES = {space.name: space.bind(MODEL, CLUSTER, engine_overlaps=True) for space in (BERT, DEFAULT, LOSSY)}
SMALL = Space(
    "small",
    (
        Rule(VariableFilter(over_bytes=4096), Servers("first"), all_reduce=True, compressors=(None, Cast("bf16"))),
        Rule(EVERYTHING, all_reduce=True),
    ),
    max_buckets=2,
    staleness=(0,),
    changes_statistics=True,
)


BIG = ModelSpec(
    "big", 1, "SGD", 0, tuple(Variable(f"v{place}", (512, 1024 >> place), "float32", 5 - place) for place in range(6))
)
"""Matrices of 2 MiB to 64 KiB."""


def bytes_of(strategy: Strategy, model: ModelSpec) -> dict[int, float]:
    """Gradient bytes of each bucket of dense gradients."""
    held: dict[int, float] = {}
    for decision, _, shard in strategy.shards():
        if isinstance(shard, AllReduce) and not model.by_name[decision.variable].sparse:
            part = model.by_name[decision.variable].bytes / len(decision.shards)
            held[shard.group] = held.get(shard.group, 0.0) + part
    return held


def with_reads(model: ModelSpec, read: Callable[[int, int], float]) -> ModelSpec:
    """The model with a profile; `read` is a function of the ready order and the number of variables."""
    count = len(model.variables)
    ready = {variable.name: (variable.ready_order + 1) / count for variable in model.variables}
    reads = {variable.name: read(variable.ready_order, count) for variable in model.variables}
    return replace(model, profile=ModelProfile(0.1, 0.2, ready, reads))


@settings(max_examples=40)
@given(st.sampled_from(sorted(SPACES)), st.integers(0, 10**9))
def test_samples_mutants_and_children_with_and_without_overlap_lie_inside(name: str, seed: int) -> None:
    space, rng = SPACES[name], random.Random(seed)
    first, second = space.sample(rng), space.sample(rng)
    relieved = space.relieve(first, {MODEL.variables[0].name: 1.0}, (), rng)
    for strategy in (first, second, space.mutate(first, rng), space.crossover(first, second, rng), relieved):
        assert not list(strategy_faults(strategy, MODEL, CLUSTER))
        assert space.why_not(strategy) is None
        assert space.canonical(strategy) is strategy
        assert space.adopt(strategy, rng) == strategy


@pytest.mark.parametrize("name", SPACES)
def test_samples_mutants_and_reliefs_take_either_side(name: str) -> None:
    space, rng = SPACES[name], random.Random(5)
    samples = [space.sample(rng) for _ in range(60)]
    plain = next(strategy for strategy in samples if can_overlap(list(strategy.variables)))
    plain = replace(plain, overlap_next_forward=False)
    overlapped = replace(plain, overlap_next_forward=True)
    shares = {MODEL.variables[0].name: 1.0}
    for strategies in (
        samples,
        [space.mutate(plain, rng) for _ in range(60)],
        [space.mutate(overlapped, rng) for _ in range(60)],
        [space.relieve(plain, shares, (), rng) for _ in range(60)],
        [space.crossover(plain, overlapped, rng) for _ in range(20)],
    ):
        assert {strategy.overlap_next_forward for strategy in strategies} == {False, True}


def test_a_space_has_no_overlap_unless_the_space_and_the_engine_offer_it() -> None:
    overlapped = replace(SPACES["bert"].sample(random.Random(1)), overlap_next_forward=True)
    off = (BERT.bind(MODEL, CLUSTER), replace(BERT, overlap=False).bind(MODEL, CLUSTER, engine_overlaps=True))
    for space in off:
        rng = random.Random(3)
        assert space.why_not(overlapped) == (
            "Its steps overlap with the next forward pass; the space offers steps with a barrier only."
        )
        assert not any(space.sample(rng).overlap_next_forward for _ in range(20))
        assert space.adopt(overlapped, rng).overlap_next_forward is False
        assert space.with_other_overlap(replace(overlapped, overlap_next_forward=False)) == ()
    assert off[0].domains == off[1].domains
    assert not DDP.bind(MODEL, CLUSTER, engine_overlaps=True).domains.overlap


def test_compressed_steps_overlap_and_stale_steps_do_not() -> None:
    space = LOSSY.bind(MODEL, CLUSTER, engine_overlaps=True)
    served = space.adopt(Strategy(space.replicas, ()), random.Random(0))
    name = next(v.name for v in MODEL.variables if not v.sparse and v.bytes > 65_536)
    compressed = VariableStrategy(name, (AllReduce(99, compressor=Cast("bf16")),))
    decided = tuple(compressed if decision.variable == name else decision for decision in served.variables)
    assert space.why_not(replace(served, variables=decided, overlap_next_forward=True)) is None
    stale: dict[Synchronizer, Synchronizer] = {
        server: replace(server, staleness=1, local_copy=False)
        for decision in served.variables
        for server in decision.servers
    }
    draft = [decision.replace_synchronizers(stale) for decision in served.variables]
    assert stale
    assert not can_overlap(draft)


@pytest.mark.parametrize("declared", [SMALL, TINY, replace(SMALL, max_buckets=1)])
def test_a_small_space_is_counted_and_enumerated_with_both_sides(declared: Space) -> None:
    model, cluster = cases.mlp_model(), cases.local_cluster(2)
    barrier, both = declared.bind(model, cluster), declared.bind(model, cluster, engine_overlaps=True)
    synchronous = sum(can_overlap(draft) for draft in all_drafts(barrier.domains))
    drafts = sum(1 for _ in all_drafts(barrier.domains))
    assert both.log10_size == pytest.approx(math.log10(drafts + synchronous))
    strategies = list(both.enumerate())
    assert len(strategies) == len(set(strategies)) == both.size
    plain = {strategy for strategy in strategies if not strategy.overlap_next_forward}
    assert plain == set(barrier.enumerate())
    twins = {replace(strategy, overlap_next_forward=False) for strategy in strategies if strategy.overlap_next_forward}
    assert twins == {strategy for strategy in plain if can_overlap(list(strategy.variables))}


def test_the_other_overlap_is_the_twin_and_small_buckets_in_both_orders() -> None:
    model = with_reads(BIG, lambda ready, count: (ready * 5 % count) / count)
    space = DEFAULT.bind(model, CLUSTER, engine_overlaps=True)
    reduced = tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in model.variables)
    barrier = space.canonical(Strategy(space.replicas, reduced))
    twin, *small = space.with_other_overlap(barrier)
    assert twin == replace(barrier, overlap_next_forward=True)
    assert barrier in space.with_other_overlap(twin)
    assert len(small) == 4
    sizes = [max(bytes_of(strategy, model).values()) for strategy in small]
    assert max(sizes[:2]) <= 1.5 * (1 << 18) < min(sizes[2:])
    for strategy in small:
        assert strategy.overlap_next_forward
        assert space.why_not(strategy) is None


def test_buckets_are_contiguous_in_the_order_of_reads() -> None:
    shuffled = random.Random(2)
    times = {place: shuffled.random() for place in range(len(MODEL.variables))}
    space = BERT.bind(with_reads(MODEL, lambda ready, _: times[ready]), CLUSTER, engine_overlaps=True)
    order = dict(zip((variable.name for variable in space.model.variables), read_order(space.model), strict=True))
    draft = [VariableStrategy(variable.name, (AllReduce(0),)) for variable in space.model.variables]
    by_ready, by_read = list(small_bucket_drafts(space.domains, draft))[:2]
    assert by_ready != by_read
    whole = {
        name: {shard.group for shard in decision.reductions}
        for name, decision in ((decision.variable, decision) for decision in by_read)
        if not space.model.by_name[name].sparse
    }
    groups = [max(whole[name]) for name in sorted(whole, key=order.__getitem__)]
    assert groups == sorted(groups)


def test_reads_mirror_readiness_where_they_were_not_measured() -> None:
    count = len(MODEL.variables)
    assert [
        order + variable.ready_order for order, variable in zip(read_order(MODEL), MODEL.variables, strict=True)
    ] == ([count - 1] * count)
    urgent = urgencies(MODEL)
    last = max(range(count), key=lambda index: MODEL.variables[index].ready_order)
    assert urgent[last] == max(urgent) == pytest.approx(1.0)
    assert min(urgent) >= 0


def test_a_measured_read_decides_the_order_and_the_urgency() -> None:
    model = with_reads(MODEL, lambda ready, _: 1.0 if ready else 0.0)
    first = next(index for index, variable in enumerate(model.variables) if not variable.ready_order)
    assert read_order(model)[first] == 0
    assert urgencies(model)[first] == pytest.approx(1 / 3 + 2 / 3 / len(model.variables))


def test_reliefs_of_overlapped_steps_choose_gradients_that_are_ready_late_and_read_early() -> None:
    space = SPACES["default"]
    by_ready = sorted(range(len(MODEL.variables)), key=lambda index: MODEL.variables[index].ready_order)
    early, late = by_ready[0], by_ready[-1]
    shares = weigh_by_urgency(space.domains, {early: 0.5, late: 0.5})
    assert shares[late] == pytest.approx(0.5)
    assert 0 < shares[early] < 0.1


def test_variables_with_a_choice_of_cuts_can_be_cut_into_small_parts() -> None:
    rule = Rule(EVERYTHING, all_reduce=True, cut=Cut((1, PerServer())))
    for engine_overlaps in (False, True):
        space: SearchSpace = Space("cut", (rule,)).bind(BIG, CLUSTER, engine_overlaps)
        largest = max(space.domains.each, key=lambda domain: domain.gradient_bytes)
        finest = largest.gradient_bytes / max(cut.shards for cut in largest.cuts if cut)
        assert (finest <= 1 << 18) == engine_overlaps


def test_no_strategy_with_small_buckets_cuts_a_variable_with_sufficient_factors() -> None:
    wide = cases.bert_like_model(1, width=512)
    variables = (replace(v, factor_rows=4 if len(v.shape) == 2 and not v.sparse else None) for v in wide.variables)
    factored = replace(wide, variables=tuple(variables))
    rule = Rule(all_reduce=True, compressors=(None, SufficientFactors()), cut=Cut(counts=(1, 2, 4), min_shard_bytes=4))
    space = Space("factored", (rule,)).bind(factored, CLUSTER, engine_overlaps=True)
    rng = random.Random(3)
    for _ in range(40):
        strategy = space.sample(rng)
        for candidate in (strategy, space.mutate(strategy, rng), *space.with_other_overlap(strategy)):
            assert not list(strategy_faults(candidate, factored, CLUSTER))

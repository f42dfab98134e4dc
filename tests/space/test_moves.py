"""Each move follows its docstring."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from autosync.space.bucket_moves import bucket_count, merge_buckets, rebucket, shift_bucket_boundary, split_bucket
from autosync.space.buckets import all_reduced_shards, buckets_of, regroup, within_limits
from autosync.space.domain import Draft, kind_of
from autosync.space.domains import Domains
from autosync.space.exchange_moves import (
    change_algorithm,
    change_algorithms,
    change_staleness,
    compress_alike,
    compress_big,
    compress_one,
)
from autosync.space.move_context import MoveContext
from autosync.space.mutation import MOVES, Move
from autosync.space.placement import server_loads, spread
from autosync.space.server_moves import move_shard, rebalance, relieve_heaviest
from autosync.space.staleness import settle_staleness, with_staleness
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
from autosync.spec import AllReduce, ParameterServer, Partition, VariableStrategy
from search_spaces.default import SPACE as DEFAULT
from search_spaces.tiny import SPACE as TINY
from tests import cases
from tests.space.wide import WIDE, factored_model

SPACE = DEFAULT.bind(cases.bert_like_model(layers=1), cases.star_cluster(nodes=3, workers=2))
DOMAINS = SPACE.domains
WIDE_SPACE = WIDE.bind(factored_model(cases.bert_like_model(layers=1)), cases.star_cluster(nodes=3, workers=2))
WIDE_DOMAINS = WIDE_SPACE.domains
RUNS = range(30)


def all_reduced(buckets: int = 1) -> Draft:
    """Every variable whole and all-reduced, distributed over `buckets` groups in graph order."""
    count = len(DOMAINS.each)
    return [
        VariableStrategy(domain.variable.name, (AllReduce(index * buckets // count),))
        for index, domain in enumerate(DOMAINS.each)
    ]


def all_served(*devices: str) -> Draft:
    """Every variable whole, on the devices in round-robin order."""
    return [
        VariableStrategy(domain.variable.name, (ParameterServer(devices[index % len(devices)]),))
        for index, domain in enumerate(DOMAINS.each)
    ]


def changed(before: Draft, after: Draft | None) -> list[int]:
    assert after is not None
    return [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def kinds(draft: Draft | None) -> Counter[str]:
    assert draft is not None
    return Counter(kind_of(shard) for decision in draft for shard in decision.shards)


@pytest.mark.parametrize("seed", RUNS)
def test_flipping_one_changes_one_variable(seed: int):
    before = all_reduced()
    after = flip_one(DOMAINS, before, random.Random(seed))
    assert len(changed(before, after)) == 1
    assert kinds(after)["served"] == 1


@pytest.mark.parametrize("seed", RUNS)
def test_flipping_alike_changes_variables_of_one_shape_to_the_same_kind(seed: int):
    before = all_served("node0/cpu:0")
    after = flip_alike(DOMAINS, before, random.Random(seed))
    indexes = changed(before, after)
    assert len(indexes) > 1
    assert len({DOMAINS.each[index].variable.shape for index in indexes}) == 1
    assert kinds(after)["reduced"] == len(indexes)


@pytest.mark.parametrize("seed", RUNS)
def test_flipping_the_big_ones_changes_the_biggest(seed: int):
    before = all_reduced()
    indexes = changed(before, flip_big(DOMAINS, before, random.Random(seed)))
    assert sorted(indexes) == sorted(DOMAINS.by_bytes[: len(indexes)])


@pytest.mark.parametrize("seed", RUNS)
def test_flipping_a_shard_leaves_a_variable_of_two_kinds(seed: int):
    before = all_reduced()
    assert flip_some_shards(DOMAINS, before, random.Random(seed)) is None, "nothing is cut yet"
    index = DOMAINS.index_of["layer_0/intermediate/kernel"]
    before[index] = VariableStrategy(before[index].variable, (AllReduce(0),) * 4, Partition(0, 4))
    after = flip_some_shards(DOMAINS, before, random.Random(seed))
    assert changed(before, after) == [index]
    assert kinds(after)["served"] == 1


def test_variables_that_come_to_servers_are_spread_over_them():
    around = MoveContext(DOMAINS, all_reduced(), random.Random(0))
    draft = [
        VariableStrategy(domain.variable.name, (around.server(domain, domain.gradient_bytes, False),))
        for domain in DOMAINS.each
    ]
    loads = server_loads(DOMAINS, draft)
    biggest = max(domain.gradient_bytes for domain in DOMAINS.each)
    assert max(loads.values()) <= sum(loads.values()) / len(loads) + biggest, "what greedy placement promises"


@pytest.mark.parametrize("seed", RUNS)
def test_cutting_one_keeps_its_kind_and_bucket(seed: int):
    before = all_reduced(3)
    after = recut_one(DOMAINS, before, random.Random(seed))
    (index,) = changed(before, after)
    assert after is not None
    assert after[index].partition is not None
    assert set(after[index].shards) == set(before[index].shards)


@pytest.mark.parametrize("seed", RUNS)
def test_shards_of_a_newly_cut_variable_go_to_different_servers(seed: int):
    before = all_served("node0/cpu:0")
    after = recut_one(DOMAINS, before, random.Random(seed))
    (index,) = changed(before, after)
    assert after is not None
    devices = [shard.device for shard in after[index].shards if isinstance(shard, ParameterServer)]
    assert len(set(devices)) == min(len(devices), 5), "the one server in use is the heaviest, five others are free"


@pytest.mark.parametrize("seed", RUNS)
def test_cutting_alike_cuts_variables_of_one_shape_the_same_way(seed: int):
    before = all_reduced()
    after = recut_alike(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert len({after[index].partition for index in changed(before, after)}) == 1


@pytest.mark.parametrize("seed", RUNS)
def test_cutting_the_big_ones_cuts_all_over_a_size(seed: int):
    before = all_reduced()
    after = recut_big(DOMAINS, before, random.Random(seed))
    cuttable = [index for index in DOMAINS.by_bytes if index in DOMAINS.cuttable]
    indexes = changed(before, after)
    assert sorted(indexes) == sorted(cuttable[: len(indexes)])
    assert after is not None
    assert all(after[index].partition for index in indexes)


@pytest.mark.parametrize("seed", RUNS)
def test_local_copies_are_toggled_for_one_variable_or_all(seed: int):
    before = all_served("node1/cpu:0")
    toggled = toggle_local_copy(DOMAINS, before, random.Random(seed))
    everywhere = toggle_local_copies(DOMAINS, before, random.Random(seed))
    assert len(changed(before, toggled)) == 1
    dense = [index for index, domain in enumerate(DOMAINS.each) if not domain.variable.sparse]
    assert changed(before, everywhere) == dense
    assert everywhere is not None
    assert toggle_local_copies(DOMAINS, everywhere, random.Random(seed)) == before


@pytest.mark.parametrize("seed", RUNS)
def test_merging_takes_two_neighbours(seed: int):
    before = all_reduced(5)
    after = merge_buckets(DOMAINS, before, random.Random(seed))
    assert after is not None
    dense = [bucket for bucket in buckets_of(DOMAINS, after) if not bucket.kind[1]]
    assert len(dense) == 4
    for bucket in dense:
        orders = [DOMAINS.each[shard.variable].variable.ready_order for shard in bucket.shards]
        assert orders == list(range(min(orders), max(orders) + 1)), "still contiguous"


@pytest.mark.parametrize("seed", RUNS)
def test_splitting_gives_one_bucket_more(seed: int):
    before = all_reduced(2)
    after = split_bucket(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert len(buckets_of(DOMAINS, after)) == len(buckets_of(DOMAINS, before)) + 1


@pytest.mark.parametrize("seed", RUNS)
def test_shifting_a_boundary_keeps_the_number_of_buckets(seed: int):
    before = all_reduced(4)
    after = shift_bucket_boundary(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert len(buckets_of(DOMAINS, after)) == len(buckets_of(DOMAINS, before))


@pytest.mark.parametrize("seed", RUNS)
def test_new_buckets_are_contiguous_in_ready_order(seed: int):
    after = rebucket(DOMAINS, all_reduced(7), random.Random(seed))
    assert after is not None
    groups = [shard.group for shard in all_reduced_shards(DOMAINS, after) if not shard.kind[1]]
    starts = [group for before, group in zip([-1, *groups], groups, strict=False) if group != before]
    assert len(starts) == len(set(starts))


def test_the_number_of_buckets_is_drawn_over_all_magnitudes():
    rng = random.Random(0)
    counts = Counter(bucket_count(DOMAINS, 31, rng) for _ in range(5000))
    assert set(counts) == set(range(1, 32))
    assert 800 < counts[1] < 1200, "ln 2 / ln 32 is a fifth"


def test_too_many_buckets_are_merged_with_their_neighbours():
    limited = Domains(DOMAINS.each, max_buckets=2)
    after = within_limits(limited, all_reduced(9))
    sizes = Counter(bucket.kind for bucket in buckets_of(limited, after))
    assert max(sizes.values()) == 2


@pytest.mark.parametrize("seed", RUNS)
def test_the_heaviest_server_gives_a_shard_away(seed: int):
    before = all_served("node0/cpu:0", "node1/cpu:0")
    loads = server_loads(DOMAINS, before)
    heaviest = max(loads, key=loads.__getitem__)
    after = relieve_heaviest(DOMAINS, before, random.Random(seed))
    (index,) = changed(before, after)
    assert after is not None
    assert before[index].shards == (ParameterServer(heaviest),)
    assert server_loads(DOMAINS, after)[heaviest] < loads[heaviest]


@pytest.mark.parametrize("seed", RUNS)
def test_a_moved_shard_goes_to_another_server(seed: int):
    before = all_served("node0/cpu:0")
    after = move_shard(DOMAINS, before, random.Random(seed))
    assert len(changed(before, after)) == 1


def test_spreading_without_jitter_is_even_in_bytes():
    loads = server_loads(DOMAINS, spread(DOMAINS, all_served("node0/cpu:0"), random.Random(0)))
    biggest = max(domain.gradient_bytes for domain in DOMAINS.each)
    assert max(loads.values()) - min(loads.values()) <= biggest


def test_spreading_keeps_to_the_devices_named():
    after = spread(DOMAINS, all_served("node0/cpu:0"), random.Random(0), devices=("node1/cpu:1", "node2/cpu:0"))
    loads = server_loads(DOMAINS, after)
    assert {device for device, load in loads.items() if load} == {"node1/cpu:1", "node2/cpu:0"}


@pytest.mark.parametrize("seed", RUNS)
def test_rebalancing_keeps_everything_but_devices(seed: int):
    before = all_served("node0/cpu:0")
    after = rebalance(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert kinds(after) == kinds(before)
    assert [decision.partition for decision in after] == [decision.partition for decision in before]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_a_move_in_a_space_of_one_strategy_does_not_leave_it(move: Move):
    space = TINY.bind(cases.scalar_model(), cases.local_cluster(1))
    (only,) = space.enumerate()
    result = move(space.domains, list(only.variables), random.Random(0))
    assert result is None or space.canonical(replace(only, variables=tuple(result))) == only


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_every_move_applies_to_many_samples(move: Move):
    rng = random.Random(1)
    applied = sum(move(WIDE_DOMAINS, list(WIDE_SPACE.sample(rng).variables), rng) is not None for _ in range(100))
    assert applied > (10 if move is change_staleness else 20)  # which needs every variable on servers, uncompressed


@pytest.mark.parametrize("seed", RUNS)
def test_changing_an_algorithm_changes_that_of_one_bucket_alone(seed: int):
    before = regroup(all_reduced(3), buckets_of(DOMAINS, all_reduced(3)))
    after = change_algorithm(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert changed_groups(before, after) == [{"ring": 4}, {"ring": 3, "other": 1}], "rows are in a bucket of their own"


@pytest.mark.parametrize("seed", RUNS)
def test_changing_algorithms_leaves_buckets_as_they_are(seed: int):
    before = all_reduced(9)
    after = change_algorithms(DOMAINS, before, random.Random(seed))
    assert after is not None
    assert [[shard.group for shard in decision.shards] for decision in after] == [
        [shard.group for shard in decision.shards] for decision in regroup(before, buckets_of(DOMAINS, before))
    ]
    assert (
        len({shard.algorithm for decision in after for shard in decision.shards if isinstance(shard, AllReduce)}) <= 2
    )


def changed_groups(*drafts: Draft) -> list[Counter[str]]:
    """Per draft, the number of buckets that use a ring, and of all others."""
    counts = []
    for draft in drafts:
        buckets = {(s.group, s.algorithm) for decision in draft for s in decision.shards if isinstance(s, AllReduce)}
        counts.append(Counter("ring" if algorithm == "ring" else "other" for _, algorithm in buckets))
    return counts


def plain(draft: Draft | None) -> list[object]:
    """The draft without its compressors and groups."""
    assert draft is not None
    return [
        [(decision.partition, getattr(shard, "device", "reduced"), getattr(shard, "local_copy", None))]
        for decision in draft
        for shard in decision.shards
    ]


@pytest.mark.parametrize("seed", RUNS)
@pytest.mark.parametrize("move", [compress_one, compress_alike, compress_big])
def test_compressing_changes_nothing_but_compressors_and_the_buckets_that_follow(move: Move, seed: int):
    rng = random.Random(seed)
    before = list(WIDE_SPACE.sample(rng).variables)
    after = move(WIDE_DOMAINS, before, rng)
    assert plain(after) == plain(before)
    assert after is not None
    indexes = set(changed(before, after))
    assert move is not compress_one or len(indexes) == 1
    assert indexes <= set(WIDE_DOMAINS.compressible)


def test_a_stale_draft_that_comes_to_reduce_something_is_synchronous_again():
    stale = with_staleness(all_served("node0/cpu:0"), 4)
    domains = replace(DOMAINS, staleness=(0, 2))
    assert {shard.staleness for decision in settle_staleness(domains, stale) for shard in decision.shards} == {2}
    index = DOMAINS.index_of["pooler/bias"]
    stale[index] = VariableStrategy("pooler/bias", (AllReduce(0),))
    assert {
        getattr(shard, "staleness", 0) for decision in settle_staleness(domains, stale) for shard in decision.shards
    } == {0}

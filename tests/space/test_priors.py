"""Named rules of a space, and how the space changes without them."""

from __future__ import annotations

import random
import re
import statistics
from collections import Counter

import pytest

from autosync.errors import SpaceError
from autosync.space import KNOWLEDGE, SearchSpace, Space
from autosync.space.buckets import buckets_of
from autosync.space.mutation import FOLLOWS_FROM, Move, random_move
from autosync.space.placement import server_loads
from autosync.space.server_moves import rebalance
from autosync.spec import AllReduce, Strategy
from search_spaces.bert import SPACE as BERT
from search_spaces.tiny import SPACE as TINY
from tests import cases
from tests.space.wide import WIDE, factored_model

MODEL, CLUSTER = cases.bert_like_model(layers=2), cases.star_cluster(nodes=4)
RUNS = 60


def bound(*without: str, space: Space = BERT) -> SearchSpace:
    return space.without(*without).bind(MODEL, CLUSTER)


def samples(space: SearchSpace) -> list[Strategy]:
    rng = random.Random(4)
    return [space.sample(rng) for _ in range(RUNS)]


def test_a_space_without_a_rule_says_so_in_its_name_and_knows_the_others() -> None:
    less = BERT.without("load_balancing").without("bucket_order")
    assert less.name == "bert without load_balancing without bucket_order"
    assert set(less.knowledge) == set(KNOWLEDGE) - {"load_balancing", "bucket_order"}
    assert BERT.without() is BERT
    assert less.without("bucket_order") is less


def test_a_rule_that_there_is_none_of_is_refused_with_those_there_are() -> None:
    sentence = (
        "Space 'bert' has no rule 'luck' to do without. Known: load_balancing, server_choice, bucket_order, "
        "partition_bounds, common_decisions."
    )
    with pytest.raises(SpaceError, match=re.escape(sentence)):
        BERT.without("load_balancing", "luck")
    with pytest.raises(SpaceError, match=r"has no rule 'luck'"):
        Space("bert", BERT.rules, knowledge=("luck",))


@pytest.mark.parametrize("rule", KNOWLEDGE)
def test_without_any_one_rule_strategies_are_drawn_bred_and_mutated_inside_the_space(rule: str) -> None:
    space, rng = bound(rule), random.Random(1)
    first, second = space.sample(rng), space.sample(rng)
    for _ in range(20):
        second, first = first, space.mutate(space.crossover(first, second, rng), rng)
        assert space.why_not(first) is None


@pytest.mark.parametrize("rule", KNOWLEDGE)
def test_each_rule_makes_a_difference_to_what_is_drawn(rule: str) -> None:
    assert samples(bound(rule)) != samples(bound())


def test_with_load_balancing_servers_have_about_the_same_to_do_and_without_it_they_have_not() -> None:
    def imbalance(space: SearchSpace) -> float:
        """The busiest server's load over its equal share after all shards are placed again; the median over samples."""
        rng, ratios = random.Random(2), []
        for strategy in samples(space):
            draft = rebalance(space.domains, list(strategy.variables), rng)
            loads = [load for load in server_loads(space.domains, draft).values() if load] if draft else []
            if len(loads) > 1:
                ratios.append(max(loads) / statistics.mean(loads))
        return statistics.median(ratios)

    assert imbalance(bound()) < 1.2 < imbalance(bound("load_balancing"))


class OneMove(random.Random):
    """Draws as usual, except that it always draws the same move."""

    def __init__(self, move: Move, seed: int) -> None:
        super().__init__(seed)
        self._move = move

    def sample(self, population, k, **options):  # type: ignore[no-untyped-def]
        return [self._move] if self._move in population else super().sample(population, k, **options)


@pytest.mark.parametrize("move", FOLLOWS_FROM, ids=lambda move: move.__name__)
def test_a_move_that_is_nothing_but_a_rule_at_work_is_not_made_without_the_rule(move: Move) -> None:
    def changes(space: SearchSpace) -> int:
        rng = random.Random(8)
        drafts = [list(space.sample(rng).variables) for _ in range(12)]
        return sum(random_move(space.domains, draft, OneMove(move, seed)) != draft for seed, draft in enumerate(drafts))

    model, cluster = factored_model(MODEL), cases.star_cluster(nodes=2, workers=2)
    assert changes(WIDE.bind(model, cluster)) > 0
    assert changes(WIDE.without(FOLLOWS_FROM[move]).bind(model, cluster)) == 0


def test_without_the_servers_choice_any_server_may_hold_any_variable() -> None:
    tiny = TINY.bind(cases.mlp_model(), CLUSTER)
    free = TINY.without("server_choice").bind(cases.mlp_model(), CLUSTER)
    assert [len(domain.devices) for domain in tiny.domains.each if domain.servers] == [1, 1, 1]
    assert [len(domain.devices) for domain in free.domains.each if domain.servers] == [4, 4, 4]


def test_without_the_servers_choice_a_strategy_uses_all_servers_alike() -> None:
    def servers(space: SearchSpace) -> Counter[int]:
        used = [
            {shard.device for _, _, shard in strategy.shards() if not isinstance(shard, AllReduce)}
            for strategy in samples(space)
        ]
        return Counter(len(devices) for devices in used if devices)

    with_choice, without = servers(bound()), servers(bound("server_choice"))
    assert with_choice[1] + with_choice[2] > without[1] + without[2]


def test_a_bucket_holds_gradients_that_are_ready_one_after_the_other_unless_their_order_is_not_known() -> None:
    def gaps(space: SearchSpace) -> float:
        """Variables from a bucket's first to its last in ready order, per variable of the bucket; the median."""
        spans = []
        for strategy in samples(space):
            for bucket in buckets_of(space.domains, list(strategy.variables)):
                orders = sorted({space.domains.each[shard.variable].variable.ready_order for shard in bucket.shards})
                if 1 < len(orders) < len(MODEL.variables) / 3:
                    spans.append((orders[-1] - orders[0] + 1) / len(orders))
        return statistics.median(spans)

    assert gaps(bound()) < 2 < gaps(bound("bucket_order"))


def test_without_bounds_small_variables_are_cut_too_and_big_ones_in_any_number_of_shards() -> None:
    bounded, free = bound(), bound("partition_bounds")
    bias = bounded.domains.index_of["layer_0/attention/query/bias"]
    assert [len(space.domains.each[bias].cuts) for space in (bounded, free)] == [1, 32]
    token = bounded.domains.index_of["embeddings/token"]
    assert len(bounded.domains.each[token].cuts) < 8
    assert [cut.shards for cut in free.domains.each[token].cuts if cut] == list(range(2, 33)), "rows of a sparse one"


def test_without_common_decisions_variables_of_a_shape_are_seldom_decided_alike() -> None:
    def alike(space: SearchSpace) -> float:
        """The share of samples in which all twelve square kernels have the same kind."""
        names = [variable.name for variable in MODEL.variables if variable.shape == (128, 128)]
        kinds = [{type(strategy.by_name[name].shards[0]) for name in names} for strategy in samples(space)]
        return sum(len(sample_kinds) == 1 for sample_kinds in kinds) / len(kinds)

    assert alike(bound()) > 0.3 > 0.1 > alike(bound("common_decisions"))

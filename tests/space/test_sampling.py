"""Samples have styles instead of uniform noise: extremes, balance and cuts all occur."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from autosync.space.buckets import buckets_of
from autosync.space.placement import server_loads
from autosync.spec import AllReduce, Strategy
from search_spaces.default import SPACE as DEFAULT
from search_spaces.tiny import SPACE as TINY
from tests import cases

SPACE = DEFAULT.bind(cases.bert_like_model(), cases.local_cluster())


@pytest.fixture(scope="module")
def samples() -> list[Strategy]:
    return [SPACE.sample(random.Random(seed)) for seed in range(1000)]


def reduced_share(strategy: Strategy) -> float:
    """Share of variables with an all-reduced shard; independent fair draws would keep the share in 0.3 to 0.7."""
    reduced = [any(isinstance(shard, AllReduce) for shard in decision.shards) for decision in strategy.variables]
    return sum(reduced) / len(reduced)


def test_samples_reach_all_reduce_only_servers_only_and_everything_between(samples):
    shares = [reduced_share(strategy) for strategy in samples]
    assert sum(share <= 0.1 for share in shares) > 150
    assert sum(share >= 0.9 for share in shares) > 150
    assert sum(0.1 < share < 0.9 for share in shares) > 200


def test_the_number_of_buckets_varies_over_magnitudes(samples):
    counts = Counter(len(buckets_of(SPACE.domains, list(strategy.variables))) for strategy in samples)
    assert sum(count for buckets, count in counts.items() if 1 <= buckets <= 3) > 100
    assert sum(count for buckets, count in counts.items() if buckets > 20) > 50


def test_some_samples_cut_nothing_and_some_cut_many(samples):
    cuts = [sum(decision.partition is not None for decision in strategy.variables) for strategy in samples]
    assert sum(cut == 0 for cut in cuts) > 200
    assert sum(cut > 10 for cut in cuts) > 100


def test_servers_are_often_balanced(samples):
    balanced = 0
    for strategy in samples:
        loads = server_loads(SPACE.domains, list(strategy.variables))
        balanced += min(loads.values()) > 0 and max(loads.values()) < 1.5 * min(loads.values())
    assert balanced > 100


def test_samples_are_nearly_all_different(samples):
    assert len({strategy.digest for strategy in samples}) > 900


def test_walking_by_mutation_reaches_every_strategy_of_a_small_space():
    space = TINY.bind(cases.mlp_model(), cases.local_cluster())
    rng = random.Random(0)
    strategy = space.sample(rng)
    seen = {strategy.digest}
    for _ in range(300):
        strategy = space.mutate(strategy, rng)
        seen.add(strategy.digest)
    assert len(seen) == space.size


def test_children_do_not_shatter_their_parents_buckets(samples):
    rng = random.Random(0)
    for _ in range(200):
        first, second = rng.choice(samples), rng.choice(samples)
        child = SPACE.crossover(first, second, rng)
        counts = [len(buckets_of(SPACE.domains, list(strategy.variables))) for strategy in (child, first, second)]
        assert counts[0] <= counts[1] + counts[2] + 2

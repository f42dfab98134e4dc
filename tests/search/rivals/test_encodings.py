"""Strategies as points: a point's strategy lies in the space, and a strategy's point describes it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.search.rivals import Dimension, Encoding, Knobs, PerVariable
from autosync.search.rivals.encoding import as_columns, draw_point, neighbour
from autosync.search.rivals.knob_setting import nearest_setting
from autosync.space import EVERYTHING, Rule, SearchSpace, Space
from autosync.spec import AllReduce, ParameterServer
from search_spaces.bert import SPACE as BERT
from search_spaces.default import SPACE
from tests.cases import bert_like_model, mlp_model, star_cluster

BERT_HERE = BERT.bind(bert_like_model(1), star_cluster(4))
SPACES = {"dense": SPACE.bind(mlp_model(), star_cluster(2)), "sparse": BERT_HERE}

RINGS_ONLY = Space("rings", (Rule(EVERYTHING, all_reduce=True),)).bind(mlp_model(), star_cluster(2))

Make = Callable[[SearchSpace], Encoding]


@pytest.fixture(params=[PerVariable, Knobs])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


@pytest.mark.parametrize("name", SPACES)
def test_whatever_a_point_asks_for_comes_out_as_a_strategy_of_the_space(make: Make, name: str) -> None:
    space, rng = SPACES[name], random.Random(1)
    encoding = make(space)
    strategies = [encoding.strategy(draw_point(encoding.dimensions, rng)) for _ in range(40)]
    assert [space.why_not(strategy) for strategy in strategies] == [None] * 40
    assert len({strategy.digest for strategy in strategies}) > 20


@pytest.mark.parametrize("name", SPACES)
def test_every_strategy_has_a_point_with_a_choice_for_each_dimension(make: Make, name: str) -> None:
    space, rng = SPACES[name], random.Random(2)
    encoding = make(space)
    baselines = [baseline(space.model, space.cluster) for baseline in BASELINES.values()]
    for strategy in [*baselines, *(space.sample(rng) for _ in range(30))]:
        point = encoding.point(strategy)
        assert all(
            0 <= number < dimension.choices for number, dimension in zip(point, encoding.dimensions, strict=True)
        )


@pytest.mark.parametrize("name", SPACES)
def test_the_same_point_gives_the_same_strategy(make: Make, name: str) -> None:
    first, second = make(SPACES[name]), make(SPACES[name])
    point = draw_point(first.dimensions, random.Random(3))
    assert first.strategy(point) == second.strategy(point)


def test_what_cannot_be_chosen_is_no_dimension(make: Make) -> None:
    dimensions = make(RINGS_ONLY).dimensions
    assert all(dimension.choices > 1 for dimension in dimensions)
    assert not [
        dimension.name for dimension in dimensions if dimension.name.endswith(" by") or dimension.name == "servers"
    ]


def test_candidates_are_strategies_of_the_space_and_some_are_near_the_leaders(make: Make) -> None:
    encoding = make(BERT_HERE)
    leader = BERT_HERE.sample(random.Random(4))
    candidates = encoding.candidates([leader], random.Random(5))
    assert len(candidates) >= 100
    assert [BERT_HERE.why_not(candidate) for candidate in candidates] == [None] * len(candidates)
    leaders_point = encoding.point(leader)

    def apart(point: tuple[int, ...]) -> int:
        return sum(mine != theirs for mine, theirs in zip(leaders_point, point, strict=True))

    distances = sorted(apart(encoding.point(candidate)) for candidate in candidates)
    assert distances[10] < distances[len(distances) // 2]


def test_the_point_of_a_strategy_that_the_encoding_can_say_is_that_strategy() -> None:
    encoding = PerVariable(BERT_HERE)
    for name in ("all_reduce_per_variable", "all_reduce_25mb", "parameter_server"):
        strategy = BERT_HERE.adopt(BASELINES[name](BERT_HERE.model, BERT_HERE.cluster), random.Random(0))
        again = encoding.strategy(encoding.point(strategy))
        assert len({s.group for _, _, s in again.shards() if isinstance(s, AllReduce)}) == len(
            {s.group for _, _, s in strategy.shards() if isinstance(s, AllReduce)}
        )
        assert encoding.point(again) == encoding.point(strategy)


def test_one_server_is_described_as_one_server() -> None:
    setting = nearest_setting(BERT_HERE, BASELINES["parameter_server"](BERT_HERE.model, BERT_HERE.cluster))
    assert (setting.kind, setting.servers, setting.cut_bytes) == ("all on servers", 1, math.inf)
    again = setting.strategy(BERT_HERE)
    assert len({s.device for _, _, s in again.shards() if isinstance(s, ParameterServer)}) == 1


def test_buckets_are_described_by_their_mean_bytes() -> None:
    strategy = BASELINES["all_reduce_per_variable"](BERT_HERE.model, BERT_HERE.cluster)
    setting = nearest_setting(BERT_HERE, strategy)
    total = sum(domain.gradient_bytes for domain in BERT_HERE.domains.each)
    assert setting.kind == "all all-reduced"
    assert setting.bucket_bytes == pytest.approx(total / len(BERT_HERE.model.variables))


def test_parallax_is_described_as_sparse_on_servers() -> None:
    setting = nearest_setting(BERT_HERE, BASELINES["parallax"](BERT_HERE.model, BERT_HERE.cluster))
    assert setting.kind == "sparse on servers"


def test_larger_buckets_are_fewer() -> None:
    knobs = Knobs(BERT_HERE)
    names = [dimension.name for dimension in knobs.dimensions]
    counts = []
    for size in range(knobs.dimensions[names.index("bucket_bytes")].choices):
        point = [0] * len(names)
        point[names.index("kind")], point[names.index("bucket_bytes")] = 1, size
        point[names.index("cut_bytes")] = knobs.dimensions[names.index("cut_bytes")].choices - 1
        strategy = knobs.strategy(tuple(point))
        counts.append(len({s.group for _, _, s in strategy.shards() if isinstance(s, AllReduce)}))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 4 * counts[-1]


def test_a_neighbour_differs_in_one_or_two_dimensions() -> None:
    dimensions = [Dimension("a", 3, ordered=True), Dimension("b", 2, ordered=False), Dimension("c", 9, ordered=True)]
    rng = random.Random(0)
    changes = {
        sum(before != after for before, after in zip((0, 1, 4), neighbour(dimensions, (0, 1, 4), rng), strict=True))
        for _ in range(50)
    }
    assert changes == {1, 2}


def test_two_choices_are_as_far_apart_as_the_ends_of_a_scale() -> None:
    dimensions = [Dimension("a", 5, ordered=True), Dimension("b", 3, ordered=False)]
    columns = as_columns(dimensions, [(0, 0), (4, 0), (0, 2), (2, 0)])
    assert columns.shape == (4, 4)
    assert np.linalg.norm(columns[0] - columns[1:], axis=1) == pytest.approx([1.0, 1.0, 0.5])

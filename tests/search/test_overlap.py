"""Searchers propose steps that overlap with the next forward pass, in spaces that offer them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.search.guided.breeding import BreedingOptions, breed
from autosync.search.guided.decisions import DecisionCoder
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.protocol import Proposal, run_search
from autosync.search.registry import SEARCHERS, make_searcher
from autosync.search.rivals import Knobs, PerVariable
from autosync.search.searcher import SearcherArguments
from autosync.spec import ModelSpec, RuntimeRecord, Strategy
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import StepLaw, timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(3)
HERE = SPACE.bind(MODEL, CLUSTER, engine_overlaps=True)
GIVEN = [(name, BASELINES[name](MODEL, CLUSTER)) for name in ("parameter_server", "all_reduce_25mb", "parallax")]


@dataclass
class OverlapLaw:
    """A law of step time under which an overlap saves a fifth of each step."""

    law: StepLaw

    def seconds(self, model: ModelSpec, strategy: Strategy) -> float:
        return self.law.seconds(model, strategy) * (0.8 if strategy.overlap_next_forward else 1.0)


def answer(proposal: Proposal) -> RuntimeRecord:
    return timed(HERE, proposal, OverlapLaw(truth()))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in SEARCHERS if name != "guided"])
def test_every_rival_proposes_steps_with_and_without_an_overlap(name: str) -> None:
    searcher = make_searcher(name, SearcherArguments(HERE, GIVEN, 3, AnalyticSimulator))
    strategies = [record.strategy for record in run_search(searcher, answer, 15) if record.purpose == "search"]
    assert all(HERE.contains(strategy) for strategy in strategies)
    assert {strategy.overlap_next_forward for strategy in strategies} == {False, True}


def test_a_guided_search_learns_that_an_overlap_is_faster() -> None:
    options = GuidedOptions(breeding=BreedingOptions(founders=30, generations=1, children=20, parents=8))
    searcher = GuidedSearch(HERE, GIVEN, 3, AnalyticSimulator(), options)
    records = run_search(searcher, answer, 24)
    assert all(HERE.contains(record.strategy) for record in records if record.purpose == "search")
    assert min(records, key=lambda record: record.median_seconds or math.inf).strategy.overlap_next_forward
    assert sum(record.strategy.overlap_next_forward for record in records[-8:]) >= 6


def test_the_twin_of_the_best_and_small_buckets_are_the_first_candidates() -> None:
    leaders = [HERE.adopt(strategy, random.Random(0)) for _, strategy in GIVEN]
    litter = breed(
        HERE,
        leaders,
        random.Random(1),
        lambda strategies: np.zeros(len(strategies)),
        lambda strategy, rng: HERE.mutate(strategy, rng),
        BreedingOptions(founders=2, generations=0),
    )
    offered = HERE.with_other_overlap(leaders[0])
    assert tuple(litter)[: len(offered)] == offered
    assert offered[0] == replace(leaders[0], overlap_next_forward=True)


def test_strategies_with_and_without_an_overlap_are_unlike() -> None:
    coder = DecisionCoder(MODEL)
    barrier = HERE.adopt(GIVEN[1][1], random.Random(0))
    both = coder.decisions([barrier, replace(barrier, overlap_next_forward=True)])
    assert coder.kernel(both, both, 0.3)[0].tolist() == pytest.approx([1.0, 0.5 + 0.5 * np.exp(-2.0)])


@pytest.mark.parametrize("make", [PerVariable, Knobs])
def test_a_point_has_a_dimension_for_the_overlap(make: type[PerVariable | Knobs]) -> None:
    barrier = HERE.adopt(GIVEN[1][1], random.Random(0))
    encoding, rng = make(HERE), random.Random(4)
    assert encoding.dimensions[-1].name == "overlap"
    for strategy in (barrier, replace(barrier, overlap_next_forward=True)):
        point = encoding.point(strategy)
        assert point[-1] == encoding.point(encoding.strategy(point))[-1] == int(strategy.overlap_next_forward)
    assert {strategy.overlap_next_forward for strategy in encoding.candidates([barrier], rng)} == {False, True}
    assert "overlap" not in {dimension.name for dimension in make(SPACE.bind(MODEL, CLUSTER)).dimensions}

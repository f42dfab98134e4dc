"""Guided search needs fewer trials than random search to come close to the best known strategy."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Coefficients
from autosync.search.guided.searcher import GuidedSearch
from autosync.search.protocol import Proposal, Searcher, run_search
from autosync.search.random_search import RandomSearch
from autosync.spec import ModelSpec, Strategy
from autosync.stats.accuracy import best_so_far
from search_spaces.default import SPACE
from tests.cases import bert_like_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = bert_like_model(2), star_cluster()
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
GIVEN = [(label, baseline(MODEL, CLUSTER)) for label, baseline in BASELINES.items()]
TRIALS, SEEDS = 34, 6


class MixedTruth:
    """A step time that the closed form cannot fit: other coefficients, and three tenths of another law."""

    closed_form = AnalyticSimulator(
        Coefficients(
            step_overhead_seconds=2e-2,
            core_seconds_per_flop=5e-11,
            core_seconds_per_message=4e-4,
            core_seconds_per_byte=3e-9,
            core_seconds_per_reduced_byte=1e-9,
            overlap=0.8,
        )
    )

    def seconds(self, model: ModelSpec, strategy: Strategy) -> float:
        fitting = float(np.exp(self.closed_form.predict(model, CLUSTER, [strategy])[0]))
        return 0.7 * fitting + 0.3 * truth().seconds(model, strategy)


def bests(searcher: Searcher) -> np.ndarray:
    law = MixedTruth()

    def evaluate(proposal: Proposal):
        return timed(SPACE_HERE, proposal, law, noise=0.02)

    return best_so_far(run_search(searcher, evaluate, TRIALS))


def trials_until(curve: np.ndarray, seconds: float) -> int:
    """Return the trials until the best so far is at most `seconds`; one more than all trials if that never happens."""
    return int((curve <= seconds).argmax()) + 1 if curve[-1] <= seconds else TRIALS + 1


@pytest.mark.thorough
def test_guided_search_comes_within_5_percent_of_the_best_known_in_fewer_trials_than_random_search():
    """The odds over 12 seeds, including these: guided search came within 5 % in 10 of 12 on one machine and in 12 of 12
    on another, random search in 0 and 3; guided search had the faster strategy after all trials in 11 and 12.
    """
    guided = [bests(GuidedSearch(SPACE_HERE, GIVEN, seed, AnalyticSimulator())) for seed in range(SEEDS)]
    random = [bests(RandomSearch(SPACE_HERE, GIVEN, seed)) for seed in range(SEEDS)]
    goal = 1.05 * min(curve.min() for curve in (*guided, *random))
    needed = [trials_until(curve, goal) for curve in guided]
    assert sum(trials <= TRIALS for trials in needed) >= SEEDS // 2
    assert sum(needed) < sum(trials_until(curve, goal) for curve in random)
    assert (
        sum(best_guided[-1] < best_random[-1] for best_guided, best_random in zip(guided, random, strict=True))
        >= SEEDS - 2
    )

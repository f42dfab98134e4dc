"""Guided search needs fewer trials than random search to come close to the best known."""

from __future__ import annotations

import numpy as np

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Coefficients
from autosync.search import GuidedSearch, Proposal, RandomSearch, Searcher, best_so_far, run_search
from autosync.spec import ModelSpec, Strategy
from search_spaces.default import SPACE
from tests.cases import bert_like_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = bert_like_model(2), star_cluster()
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
SEEDS = [(label, baseline(MODEL, CLUSTER)) for label, baseline in BASELINES.items()]
TRIALS = 34


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


def test_guided_search_comes_within_5_percent_of_the_best_known_sooner_than_random_search():
    """Four seeds; in 12 seeds tried beforehand guided search was sooner every time."""
    curves = {
        seed: (
            bests(GuidedSearch(SPACE_HERE, SEEDS, seed, AnalyticSimulator())),
            bests(RandomSearch(SPACE_HERE, SEEDS, seed)),
        )
        for seed in range(4)
    }
    best_known = min(curve.min() for pair in curves.values() for curve in pair)
    for guided, random in curves.values():
        first = [
            int((curve <= 1.05 * best_known).argmax()) if curve[-1] <= 1.05 * best_known else TRIALS
            for curve in (guided, random)
        ]
        assert first[0] < first[1]
        assert guided[-1] < guided[len(SEEDS) - 1]

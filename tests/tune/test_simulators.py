"""Every simulator that `--simulator` names guides a search."""

from __future__ import annotations

import random

import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.tune.compose import make_searcher
from autosync.tune.options import SIMULATORS
from autosync.tune.spaces import load_space
from tests.tune.pretend import CLUSTER, MODEL, options
from tests.tune.records import record


@pytest.mark.parametrize("name", SIMULATORS)
def test_a_search_guided_by_it_learns_and_says_what_it_expects(name: str) -> None:
    seeds = list(different_strategies(BASELINES, MODEL, CLUSTER).items())
    searcher = make_searcher(options(simulator=name), load_space("default").bind(MODEL, CLUSTER), seeds)
    rng, expected = random.Random(3), []
    for proposal in searcher.ask(len(seeds)):
        expected.append(proposal.predicted_seconds)
        searcher.tell(record(proposal.label, [rng.uniform(3.0, 3.3)] * 9))
    (found,) = searcher.ask(1)
    assert found.strategy.digest not in {strategy.digest for _, strategy in seeds}
    assert found.predicted_seconds == pytest.approx(3.1, rel=0.3)
    assert max(filter(None, expected)) < 1.0, "before anything was measured it expected something else"

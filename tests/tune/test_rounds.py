"""The number of trials that a guided search proposes together, and the sentence on idle lanes."""

from __future__ import annotations

import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.search.guided.searcher import GuidedOptions
from autosync.tune.composing import idle_in_words, make_searcher
from search_spaces import load_space
from tests.tune.pretend import CLUSTER, MODEL, options
from tests.tune.records import record


@pytest.mark.parametrize("size", [1, 4, 7])
def test_a_round_has_as_many_trials_as_are_asked_for(size: int) -> None:
    baselines = list(different_strategies(BASELINES, MODEL, CLUSTER).items())
    asked = options(simulator="analytic", round_size=None if size == GuidedOptions.round_size else size)
    searcher = make_searcher(asked, load_space("default").bind(MODEL, CLUSTER), baselines)
    for proposal in searcher.ask(len(baselines)):
        searcher.tell(record(proposal.label, [3.0] * 9))
    assert len(searcher.ask(100)) == size


def test_lanes_that_stay_idle_are_said_with_what_would_keep_them_busy() -> None:
    (line,) = idle_in_words(options(), 6)
    assert line == (
        "6 trials fit on the cluster at once, but a round of the search has only 4, and the next round waits for it; "
        "--round-size 6 uses all nodes."
    )
    assert not [*idle_in_words(options(), 4), *idle_in_words(options(round_size=6), 6)]
    assert not [*idle_in_words(options(searcher="random"), 6)]

"""Rounds of a guided search: the answers they wait for, the baselines among them, the picks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.search.guided.breeding import BreedingOptions
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.protocol import Proposal, run_search
from autosync.spec import RuntimeRecord, Strategy
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import rough_simulator, timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(3)
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
GIVEN = [
    (name, BASELINES[name](MODEL, CLUSTER)) for name in ("parameter_server", "all_reduce_25mb", "byteps", "parallax")
]
FEW = GuidedOptions(breeding=BreedingOptions(founders=30, generations=1, children=20, parents=8))


def searcher(options: GuidedOptions = FEW, simulator: object = None) -> GuidedSearch:
    return GuidedSearch(SPACE_HERE, GIVEN, 3, simulator or rough_simulator(), options)  # type: ignore[arg-type]


def answer(proposal: Proposal) -> RuntimeRecord:
    return timed(SPACE_HERE, proposal, truth(), noise=0.02)


def distinct_baselines() -> int:
    return len({strategy.digest for _, strategy in GIVEN})


def test_the_first_baselines_are_those_of_the_shortest_prediction_and_the_same_when_restored() -> None:
    guided, again = searcher(), searcher(simulator=AnalyticSimulator())
    first = guided.ask(1)
    again.restore(guided.state())
    proposals = first + guided.ask(100)
    assert [proposal.purpose for proposal in proposals] == ["baseline"] * FEW.first_baselines
    left = guided.ask_baselines(100)
    assert len(left) == distinct_baselines() - FEW.first_baselines
    seconds = [proposal.predicted_seconds for proposal in proposals + left]
    assert seconds == sorted(seconds)  # type: ignore[type-var]
    assert [proposal.label for proposal in proposals + left] != [label for label, _ in GIVEN]
    assert first + again.ask(100) + again.ask_baselines(100) == proposals + left


def test_the_first_round_waits_for_the_first_baselines_and_each_for_all_of_the_one_before() -> None:
    guided = searcher()
    waiting = guided.ask(100)
    for _ in range(4):
        assert guided.ask(1) == []
        for proposal in waiting[1:]:
            guided.tell(answer(proposal))
        assert guided.ask(1) == [], "one answer is not in"
        guided.tell(answer(waiting[0]))
        waiting = guided.ask(100)
        assert len(waiting) == FEW.round_size


class Favouring:
    """A simulator that predicts a minimal time for one strategy and a second for all others."""

    def __init__(self, favourite: Strategy) -> None:
        self._favourite = favourite

    def fit(self, records, weights=None) -> None:
        """Learn nothing: the predictions are fixed."""

    def predict(self, _model, _cluster, strategies):
        return np.array([-9.0 if strategy == self._favourite else 0.0 for strategy in strategies])


def test_a_baseline_that_a_round_picks_is_proposed_under_its_own_name() -> None:
    label, favourite = GIVEN[2]
    guided = searcher(replace(FEW, first_baselines=0), Favouring(favourite))
    first = guided.ask(1)[0]
    assert (first.strategy, first.label, first.purpose) == (favourite, label, "baseline")
    assert guided.baselines_left() == distinct_baselines() - 1


def test_baselines_that_promise_little_are_timed_all_the_same_when_trials_run_out() -> None:
    records = run_search(searcher(), answer, 30)
    purposes = [record.purpose for record in records]
    assert purposes[: FEW.first_baselines] == ["baseline"] * FEW.first_baselines
    assert purposes.count("baseline") == distinct_baselines()
    few = run_search(searcher(), answer, distinct_baselines())
    assert {record.purpose for record in few} == {"baseline"}


class Against(Favouring):
    """A simulator that predicts slow baselines and a second for all others."""

    def __init__(self) -> None:
        self._slow = {strategy.digest for _, strategy in GIVEN}

    def predict(self, _model, _cluster, strategies):
        return np.array([3.0 if strategy.digest in self._slow else 0.0 for strategy in strategies])


def test_of_the_last_trials_every_other_is_a_baseline_so_that_the_search_goes_on_from_one_that_was_misjudged() -> None:
    records = run_search(searcher(replace(FEW, first_baselines=1), Against()), answer, 12)
    assert distinct_baselines() == 3
    assert [number for number, record in enumerate(records) if record.purpose == "baseline"] == [0, 8, 10]


def test_a_baseline_that_is_asked_for_is_not_proposed_again_by_the_round_that_had_picked_it() -> None:
    guided = searcher(replace(FEW, first_baselines=0, round_size=distinct_baselines() + 4))
    proposals = guided.ask(1) + guided.ask_baselines(100) + guided.ask(100)
    digests = [proposal.strategy.digest for proposal in proposals]
    assert len(digests) == len(set(digests))


@pytest.mark.parametrize(("share", "explored"), [(1.0, {True}), (0.0, {False})])
def test_picks_are_explored_as_often_as_is_asked_for(share: float, explored: set[bool]) -> None:
    guided = searcher(replace(FEW, explore_share=share))
    proposals = guided.ask(100)
    assert all(proposal.purpose == "baseline" for proposal in proposals), "the first baselines are no picks"
    picked: list[Proposal] = []
    for _ in range(4):
        for proposal in proposals:
            guided.tell(answer(proposal))
        proposals = guided.ask(100)
        picked += proposals
    assert {proposal.label == "explore" for proposal in picked} == explored


def test_what_a_round_proposes_does_not_depend_on_a_simulators_earlier_fits() -> None:
    def digests(simulator: AnalyticSimulator) -> list[str]:
        return [record.strategy.digest for record in run_search(searcher(simulator=simulator), answer, 16)]

    used = AnalyticSimulator()
    used.fit([replace(answer(Proposal(GIVEN[0][1], "any")), step_seconds=(9.0,))])
    fresh = digests(AnalyticSimulator())
    assert digests(used) == fresh


class Spread:
    """A simulator that states its uncertainty: 0.05 for the baselines, `spread` for other strategies."""

    def __init__(self, spread: float) -> None:
        self._law = rough_simulator()
        self._spread = spread
        self._surer = {strategy.digest for _, strategy in GIVEN}

    def fit(self, records) -> None:
        self._law.fit(records)

    def predict(self, model, cluster, strategies):
        return self.predict_with_spread(model, cluster, strategies)[0]

    def predict_with_spread(self, model, cluster, strategies):
        spread = np.array([0.05 if strategy.digest in self._surer else self._spread for strategy in strategies])
        return self._law.predict(model, cluster, strategies), spread


def test_a_search_expects_more_where_its_simulator_is_less_sure() -> None:
    gains = []
    for spread in (0.05, 0.5):
        guided = searcher(simulator=Spread(spread))
        assert guided.expected_gain() is None
        run_search(guided, answer, distinct_baselines() + 4)
        gain = guided.expected_gain()
        assert gain is not None
        gains.append(gain)
    assert 0 < gains[0] < gains[1] < 1


def test_what_a_search_expects_is_the_same_after_it_was_saved_and_restored() -> None:
    guided = searcher()
    run_search(guided, answer, 18)
    restored = searcher()
    restored.restore(guided.state())
    assert restored.expected_gain() == pytest.approx(guided.expected_gain())

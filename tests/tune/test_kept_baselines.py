"""Baselines that a searcher reserves for later: a campaign times each of them, and in time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.cost import AnalyticSimulator
from autosync.search.guided.breeding import BreedingOptions
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.spec import RuntimeRecord
from autosync.tune.campaign import Campaign, SearchLimits
from autosync.tune.composing import missing_baselines_in_words
from autosync.tune.patience import Patience
from search_spaces import load_space
from tests.tune.pretend import CLUSTER, MODEL, PROTOCOL, Kept, PretendBackend
from trials.trial import TrialRequest

DIFFERENT = different_strategies(BASELINES, MODEL, CLUSTER)
FEW = GuidedOptions(breeding=BreedingOptions(founders=30, generations=1, children=20, parents=8))


def digests(search: Campaign) -> list[str]:
    return [record.strategy.digest for record in search.records]


def sent(search: Campaign) -> TrialRequest:
    """The next request, which must exist."""
    request = search.next_request()
    assert request is not None
    return request


def keeping_baselines(limits: SearchLimits) -> Campaign:
    """A campaign whose searcher reserves some of its `DIFFERENT` baselines for later."""
    space = load_space("default").bind(MODEL, CLUSTER)
    searcher = GuidedSearch(space, list(DIFFERENT.items()), 0, AnalyticSimulator(), FEW)
    return Campaign(searcher, Kept(), PROTOCOL, "run", 0, limits)


@pytest.mark.parametrize(
    "limits",
    [SearchLimits(trials=2 * len(DIFFERENT)), SearchLimits(trials=99, patience=Patience(4, training_steps=1))],
    ids=["trials", "patience"],
)
def test_every_baseline_is_timed_before_trials_or_patience_run_out(limits: SearchLimits) -> None:
    search = keeping_baselines(limits)
    search.run(PretendBackend().run)
    purposes = [record.purpose for record in search.records]
    assert purposes.count("baseline") == len(DIFFERENT)
    assert purposes[: len(DIFFERENT)] != ["baseline"] * len(DIFFERENT), "some of them were kept for later"
    assert len(purposes) <= limits.trials


def test_every_baseline_is_timed_before_time_runs_out() -> None:
    search = keeping_baselines(SearchLimits(trials=99, out_of_time=lambda more: len(search.records) + more > 20))
    search.run(PretendBackend().run)
    assert [record.purpose for record in search.records].count("baseline") == len(DIFFERENT)
    assert len(search.records) == 21
    assert search.stop_reason == "Time budget reached; the remaining time is reserved for re-measuring the finalists."


def test_baselines_that_no_trial_was_of_are_named() -> None:
    search = keeping_baselines(SearchLimits(trials=len(DIFFERENT) - 2))
    search.run(PretendBackend().run)
    baselines = list(DIFFERENT.items())
    left = [name for name, strategy in baselines if strategy.digest not in digests(search)]
    assert len(left) >= 2
    assert list(missing_baselines_in_words(baselines, search.records)) == [
        f"Not timed for lack of budget: {', '.join(left)}; the fastest baseline may be among them."
    ]
    assert (
        list(
            missing_baselines_in_words([baseline for baseline in baselines if baseline[0] not in left], search.records)
        )
        == []
    )


def as_if_timed(seconds: dict[str, float]) -> Callable[[TrialRequest], RuntimeRecord]:
    """A back end whose step time depends on the trial's purpose."""
    backend = PretendBackend()
    return lambda request: replace(backend.run(request), step_seconds=(seconds[request.purpose],) * 3)


def test_a_baseline_is_held_against_baselines_alone_and_others_against_all() -> None:
    search, requests = keeping_baselines(SearchLimits(trials=len(DIFFERENT) + 8)), list[TrialRequest]()
    run = as_if_timed({"baseline": 0.3, "search": 0.1})

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        requests.append(request)
        return run(request)

    search.run(run_trial)
    first = next(number for number, request in enumerate(requests) if request.purpose == "search")
    compared = {(request.purpose, request.best_median_seconds) for request in requests[first + 1 :]}
    assert compared == {("baseline", 0.3), ("search", 0.1)}


def test_patience_that_ran_out_does_not_come_back_with_a_baseline_that_is_better() -> None:
    search = keeping_baselines(SearchLimits(trials=99, patience=Patience(4, training_steps=1)))
    backend, seen = PretendBackend(), list[str]()

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        seen.append(request.purpose)
        late = request.purpose == "baseline" and "search" in seen
        return replace(backend.run(request), step_seconds=(0.01 if late else 0.3,) * 3)

    search.run(run_trial)
    assert seen.count("baseline") == len(DIFFERENT)
    assert set(seen[max(place for place, purpose in enumerate(seen) if purpose == "search") + 1 :]) == {"baseline"}
    assert len(seen) < 40


@pytest.mark.parametrize("lanes", [2, 4])
def test_with_several_lanes_the_same_is_proposed_up_to_the_last_trial(lanes: int) -> None:
    trials, backend = len(DIFFERENT) + 9, PretendBackend()
    one_by_one = keeping_baselines(SearchLimits(trials))
    one_by_one.run(backend.run)
    search, out, asked = keeping_baselines(SearchLimits(trials)), list[TrialRequest](), list[str]()
    while True:
        while len(out) < lanes and (request := search.next_request()):
            out.append(request)
            asked.append(request.strategy.digest)
        if not out:
            break
        search.finish(backend.run(out.pop()))
    assert asked == digests(one_by_one)


@pytest.mark.parametrize("others", [4, 0], ids=["room for all", "no room for all"])
def test_a_search_taken_up_again_among_its_last_baselines_goes_on_with_them(others: int) -> None:
    trials, last = len(DIFFERENT) + others, ["baseline", "search"] * 2
    whole = keeping_baselines(SearchLimits(trials))
    whole.run(PretendBackend().run)
    assert [record.purpose for record in whole.records[-len(last) :]] == last
    first = keeping_baselines(SearchLimits(trials))
    for _ in range(trials - len(last)):
        first.finish(PretendBackend().run(sent(first)))
    second = keeping_baselines(SearchLimits(trials))
    second.restore(json.loads(json.dumps(first.state())))
    second.take_up(first.records)
    second.run(PretendBackend().run)
    assert digests(second) == digests(whole)
    predicted = [[record.predicted_seconds for record in search.records] for search in (whole, second)]
    assert predicted[0] == predicted[1]


def test_a_search_resumed_by_a_version_with_another_baseline_times_it_too() -> None:
    first = keeping_baselines(SearchLimits(trials=99))
    first.finish(PretendBackend().run(sent(first)))
    state = json.loads(json.dumps(first.state()))
    state["foretold"].popitem()
    second = keeping_baselines(SearchLimits(trials=2 * len(DIFFERENT)))
    second.restore(state)
    second.take_up(first.records)
    assert isinstance(second.searcher, GuidedSearch)
    predicted = [proposal.predicted_seconds for proposal in second.searcher.ask_baselines(100)]
    assert predicted[-1] is None
    assert None not in predicted[:-1]
    second.restore(state)
    second.run(PretendBackend().run)
    assert [record.purpose for record in second.records].count("baseline") == len(DIFFERENT)

"""The campaign, over any callable that runs trials."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autosync.cost import AnalyticSimulator
from autosync.errors import DatasetError, TrialError
from autosync.search.guided.searcher import GuidedSearch
from autosync.spec import RuntimeRecord
from autosync.tune.campaign import MOST_LOSSES, MOST_LOST, Campaign, SearchLimits
from autosync.tune.patience import Patience, trials_since_better
from search_spaces import load_space
from tests.tune.pretend import CLUSTER, GIVEN, MODEL, PROTOCOL, Kept, PretendBackend, campaign
from trials.trial import TrialRequest

SEARCHERS = ("guided", "evolution", "random")


def digests(records: list[RuntimeRecord]) -> list[str]:
    return [record.strategy.digest for record in records]


def numbered(records: list[RuntimeRecord]) -> list[RuntimeRecord]:
    return [replace(record, sequence=number) for number, record in enumerate(records)]


def sent(search: Campaign) -> TrialRequest:
    """The next request, which must exist."""
    request = search.next_request()
    assert request is not None
    return request


@pytest.mark.parametrize("name", SEARCHERS)
def test_each_record_is_stored_told_and_shown_before_the_next_request_leaves(name: str) -> None:
    store, shown, backend = Kept(), list[RuntimeRecord](), PretendBackend()
    search = campaign(name, SearchLimits(trials=8), store, (shown.append,))

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        assert store.records == shown == search.records == numbered(answered)
        assert [proposal.strategy for proposal in search.searcher.pending()] == [request.strategy]
        answered.append(backend.run(request))
        return answered[-1]

    answered: list[RuntimeRecord] = []
    search.run(run_trial)
    assert len(answered) == len(store.records) == 8
    assert len(set(digests(answered))) == 8
    assert search.searcher.pending() == []


def test_baselines_are_timed_first_under_their_names_and_the_others_are_search() -> None:
    search = campaign("guided", SearchLimits(trials=6))
    search.run(PretendBackend().run)
    assert sorted(record.label for record in search.records[:3]) == sorted(GIVEN)
    assert [record.purpose for record in search.records] == ["baseline"] * 3 + ["search"] * 3
    assert {(record.run, record.seed) for record in search.records} == {("pretended", 1)}
    assert all(record.predicted_seconds is not None for record in search.records)


def test_a_request_knows_the_best_median_so_far() -> None:
    search, backend = campaign("random", SearchLimits(trials=5)), PretendBackend()
    best = []

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        best.append(request.best_median_seconds)
        return backend.run(request)

    search.run(run_trial)
    medians = [record.median_seconds for record in search.records]
    assert best == [None, *(min(filter(None, medians[:number])) for number in range(1, 5))]


def test_a_search_ends_when_time_is_up_and_never_has_more_out_than_trials() -> None:
    search = campaign("random", SearchLimits(trials=100, out_of_time=lambda _: len(search.records) >= 4))
    search.run(PretendBackend().run)
    assert len(search.records) == 4
    search = campaign("random", SearchLimits(trials=2))
    assert search.next_request() is not None
    assert search.next_request() is not None
    assert search.next_request() is None


def test_a_search_goes_on_after_strategies_that_fail() -> None:
    usual = campaign("guided", SearchLimits(trials=5))
    usual.run(PretendBackend().run)
    search = campaign("guided", SearchLimits(trials=8))
    search.run(PretendBackend(broken=digests(usual.records)[1:4]).run)
    assert [record.outcome for record in search.records].count("failed") >= 2
    assert "this one is broken" in search.records[1].reason
    assert len(set(digests(search.records))) == 8


def test_a_lost_request_is_asked_for_again_before_any_other() -> None:
    search = campaign("guided", SearchLimits(trials=3))
    lost = sent(search)
    search.lose(lost)
    again = sent(search)
    assert again == lost
    search.finish(PretendBackend().run(again))
    assert sent(search).strategy != lost.strategy
    assert len(search.records) == 1


def lost(request: TrialRequest) -> RuntimeRecord:
    record = PretendBackend().run(request)
    return replace(record, outcome="lost", reason="Node node1 has left the cluster.", step_seconds=())


def test_a_trial_lost_with_its_node_is_kept_but_not_counted_and_runs_again() -> None:
    store = Kept()
    search = campaign("guided", SearchLimits(trials=3), store)
    first = sent(search)
    search.finish(lost(first))
    assert [record.outcome for record in store.records] == ["lost"]
    assert search.records == []
    assert sent(search) == first
    search.finish(PretendBackend().run(first))
    search.run(PretendBackend().run)
    assert len(search.records) == 3
    assert len(store.records) == 4


def test_a_strategy_under_which_nodes_keep_leaving_has_failed() -> None:
    search = campaign("guided", SearchLimits(trials=2))
    first = sent(search)
    for number in range(MOST_LOSSES):
        assert search.records == []
        search.finish(lost(first))
        following = sent(search)
        assert (following == first) == (number < MOST_LOSSES - 1)
    assert [record.outcome for record in search.records] == ["failed"]
    assert search.records[0].reason == (
        f"It was lost {MOST_LOSSES} times; the last time: Node node1 has left the cluster."
    )


def test_a_search_taken_up_again_runs_what_was_lost() -> None:
    first = campaign("guided", SearchLimits(trials=9))
    request = sent(first)
    record = lost(request)
    first.finish(record)
    second = campaign("guided", SearchLimits(trials=9))
    second.restore(json.loads(json.dumps(first.state())))
    second.take_up([record])
    assert second.records == []
    assert sent(second).strategy == request.strategy


def test_a_search_gives_up_when_trial_after_trial_is_lost() -> None:
    search = campaign("guided", SearchLimits(trials=9))
    for _ in range(MOST_LOST):
        search.lose(sent(search))
    with pytest.raises(TrialError, match=f"{MOST_LOST + 1} trials ended without a record because their"):
        search.lose(sent(search))


def test_a_store_that_is_full_ends_the_search_and_the_record_is_not_counted() -> None:
    search = campaign("random", SearchLimits(trials=9), Kept(full_after=2))
    with pytest.raises(DatasetError, match="disk is full"):
        search.run(PretendBackend().run)
    assert len(search.records) == 2
    assert len(search.searcher.pending()) == 1


@pytest.mark.quick("2-*", "5-random")
@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("stop", [0, 2, 5, 7])
def test_a_search_taken_up_again_goes_on_as_if_never_stopped(name: str, stop: int) -> None:
    whole = campaign(name, SearchLimits(trials=9))
    whole.run(PretendBackend().run)
    first = campaign(name, SearchLimits(trials=stop))
    first.run(PretendBackend().run)
    second = campaign(name, SearchLimits(trials=9))
    second.restore(json.loads(json.dumps(first.state())))
    second.take_up(first.records)
    second.run(PretendBackend().run)
    assert digests(second.records) == digests(whole.records)


def test_a_search_killed_in_mid_trial_times_the_strategy_it_had_out_first() -> None:
    first = campaign("guided", SearchLimits(trials=9))
    first.finish(PretendBackend().run(sent(first)))
    out = sent(first)
    second = campaign("guided", SearchLimits(trials=9))
    second.restore(first.state())
    second.take_up(first.records)
    assert sent(second).strategy == out.strategy


@pytest.mark.quick("3-*")
@pytest.mark.parametrize("name", SEARCHERS)
@pytest.mark.parametrize("stop", [2, 3, 4, 7])
def test_a_search_killed_between_storing_a_record_and_saving_its_state_goes_on_as_if_never_stopped(
    name: str, stop: int
) -> None:
    whole = campaign(name, SearchLimits(trials=9))
    whole.run(PretendBackend().run)
    store, backend = Kept(), PretendBackend()
    first = campaign(name, SearchLimits(trials=9), store)
    for _ in range(stop):
        request = sent(first)
        state = store.state
        first.finish(backend.run(request))
    second = campaign(name, SearchLimits(trials=9))
    second.restore(state)
    second.take_up(first.records)
    second.run(backend.run)
    assert digests(second.records) == digests(whole.records)


def test_a_request_that_depends_on_trials_under_way_waits_for_them_and_the_search_is_not_over() -> None:
    search, backend = campaign("guided", SearchLimits(trials=9)), PretendBackend()
    under_way = [sent(search) for _ in GIVEN]
    assert search.next_request() is None
    assert not search.is_over
    search.finish(backend.run(under_way.pop()))
    assert search.next_request() is None
    for request in under_way:
        search.finish(backend.run(request))
    assert [sent(search).purpose for _ in range(4)] == ["search"] * 4
    assert search.next_request() is None


def test_every_trial_but_the_first_is_compared_with_the_best() -> None:
    search, requests, backend = campaign("guided", SearchLimits(trials=20)), list[TrialRequest](), PretendBackend()

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        requests.append(request)
        return backend.run(request)

    search.run(run_trial)
    assert {request.purpose for request in requests[1:]} == {"baseline", "search"}
    assert [request.best_median_seconds is None for request in requests] == [True] + 19 * [False]


def test_a_search_taken_up_again_compares_with_what_it_has_timed_itself() -> None:
    first = campaign("guided", SearchLimits(trials=16))
    first.run(PretendBackend().run)
    second = campaign("guided", SearchLimits(trials=21))
    second.restore(json.loads(json.dumps(first.state())))
    second.take_up(first.records)
    request = sent(second)
    assert request.best_median_seconds is None
    second.finish(PretendBackend().run(request))
    request = sent(second)
    assert request.best_median_seconds == second.records[-1].median_seconds
    assert request.best_when == "since the search was resumed"
    assert sent(campaign("guided", SearchLimits(trials=16))).best_when == "so far"


def test_a_search_taken_up_again_says_what_it_compares_with_and_when_that_is_what_was_timed_before_too() -> None:
    first = campaign("random", SearchLimits(trials=2))
    first.run(PretendBackend().run)
    second, said = campaign("random", SearchLimits(trials=9)), list[str]()
    second.take_up(first.records)
    for strategy in (None, first.records[1].strategy, None):
        request = sent(second)
        said.append(request.best_when)
        second.finish(PretendBackend().run(replace(request, strategy=strategy or request.strategy)))
    assert said == ["since the search was resumed"] * 2 + ["so far at the machine's present speed"]


def test_trials_used_up_end_a_search_in_those_words() -> None:
    search = campaign("random", SearchLimits(trials=4))
    assert search.stop_reason is None
    search.run(PretendBackend().run)
    assert search.stop_reason == "All 4 trials have run."
    alone = campaign("random", SearchLimits(trials=1))
    alone.run(PretendBackend().run)
    assert alone.stop_reason == "The one trial has run."


def test_time_used_up_ends_a_search_in_those_words() -> None:
    search = campaign("random", SearchLimits(trials=4, out_of_time=lambda _: len(search.records) == 2))
    search.run(PretendBackend().run)
    assert search.stop_reason == "Time budget reached; the remaining time is reserved for re-measuring the finalists."


def test_a_space_used_up_ends_a_search_in_those_words() -> None:
    space = load_space("tiny").bind(MODEL, CLUSTER)
    search = Campaign(
        GuidedSearch(space, [], 0, AnalyticSimulator()), Kept(), PROTOCOL, "run", 0, SearchLimits(trials=99)
    )
    search.run(PretendBackend().run)
    assert len(set(digests(search.records))) == space.size
    assert search.stop_reason == "The search space is exhausted: every strategy in it was timed."


def test_a_search_ends_out_of_patience_when_another_trial_costs_more_than_it_is_expected_to_save() -> None:
    search = campaign("guided", SearchLimits(trials=99, patience=Patience(6, training_steps=1)))
    search.run(PretendBackend().run)
    waited = trials_since_better(search.records)
    assert 6 <= waited < len(search.records) < 99
    assert search.stop_reason is not None
    assert search.stop_reason.startswith(
        f"The last {waited} trials found no strategy that is 1% faster. Another trial takes "
    )
    assert search.stop_reason.endswith(" s in 1 training step.")


def test_a_search_goes_on_while_what_it_expects_to_save_in_training_is_worth_a_trial() -> None:
    search = campaign("guided", SearchLimits(trials=16, patience=Patience(1, training_steps=10**12)))
    search.run(PretendBackend().run)
    assert len(search.records) == 16


def test_a_search_that_expects_nothing_ends_out_of_patience_only_if_that_is_stated() -> None:
    asked = campaign("random", SearchLimits(trials=99, patience=Patience(5)))
    asked.run(PretendBackend().run)
    assert len(asked.records) < 99
    assert (
        asked.stop_reason
        == f"The last {trials_since_better(asked.records)} trials found no strategy that is 1% faster."
    )
    usual = campaign("random", SearchLimits(trials=70))
    usual.run(PretendBackend().run)
    assert len(usual.records) == 70

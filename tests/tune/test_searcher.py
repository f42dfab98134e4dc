"""The campaign as a Tune searcher: without a cluster, and one run under Ray Tune itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import pytest
import ray
from ray.tune import ExperimentAnalysis, Tuner
from ray.tune.search import Searcher

from autosync.errors import AutosyncError, DatasetError, NodesLostError, TrialError
from autosync.spec import RuntimeRecord
from autosync.tune.campaign import MOST_LOST, Campaign, SearchLimits
from autosync.tune.directory import RunDirectory
from autosync.tune.ray_tune import METRIC, StrategyTrial, TuneSearcher, run_with_tune
from tests.tune.pretend import CLUSTER, MODEL, Kept, OneLane, PretendBackend, campaign, options
from trials.fleet.lanes import Backend, RunOnLane
from trials.trial import TrialRequest


def digests(search: Campaign) -> list[str]:
    return [record.strategy.digest for record in search.records]


@final
class LostBackend:
    """A back end that can no longer run trials."""

    model, cluster = MODEL, CLUSTER

    def run(self, request: TrialRequest) -> RuntimeRecord:
        raise TrialError(f"No worker is left for {request.label}.")

    def close(self) -> None:
        """There is no process to end."""


@final
class TwoLanes:
    """Lanes for two trials at once; one lane can be taken away."""

    model, cluster = MODEL, CLUSTER

    def __init__(self) -> None:
        self.free = ["left", "right"]

    def take(self) -> str | None:
        return self.free.pop(0) if self.free else None

    def give_back(self, lane: str, failure: str = "") -> None:
        if not failure:
            self.free.append(lane)

    def runner(self) -> RunOnLane:
        backend = PretendBackend()
        return lambda _lane, request: backend.run(request)


@final
class NoLane:
    """Lanes that have all been lost, because nodes left for good."""

    model, cluster = MODEL, CLUSTER

    def take(self) -> str | None:
        raise NodesLostError("A trial needs 4 nodes, but too few are left.")

    def give_back(self, lane: str, failure: str = "") -> None:
        """Do nothing: there was none to take."""

    def runner(self) -> RunOnLane:
        return PretendBackend().run  # type: ignore[return-value]


def tuned(search: Campaign) -> TuneSearcher:
    return TuneSearcher(search, OneLane(PretendBackend()))


def answer(suggested: dict[str, Any], backend: Backend) -> dict[str, Any]:
    """The result that the trial reports to Tune."""
    trial = StrategyTrial.__new__(StrategyTrial)  # as Tune does, except for its log files
    trial.setup({}, run=OneLane(backend).runner())
    trial.reset_config(suggested)
    return trial.step()


def test_a_suggestion_holds_the_request_and_what_tune_should_show() -> None:
    suggested = tuned(campaign("random", SearchLimits(trials=3))).suggest("a")
    request = TrialRequest.from_json(json.loads(suggested["request"]))
    assert suggested["label"] == request.label == "parameter_server"
    assert suggested["strategy"] == request.strategy.digest


def test_a_completed_trial_is_stored_and_the_search_ends_after_its_trials() -> None:
    store, backend = Kept(), PretendBackend()
    tune = tuned(campaign("guided", SearchLimits(trials=2), store))
    for trial in ("a", "b"):
        tune.on_trial_complete(trial, answer(tune.suggest(trial), backend))
    assert len(store.records) == 2
    assert tune.suggest("c") == Searcher.FINISHED
    tune.on_trial_complete("never suggested", {"record": "{}"})
    assert tune.failure is None


def test_a_trial_that_errors_is_asked_for_again_and_at_last_ends_the_search() -> None:
    tune = tuned(campaign("guided", SearchLimits(trials=9)))
    first = tune.suggest("0")
    for trial in range(MOST_LOST):
        tune.on_trial_complete(str(trial), None, error=True)
        assert tune.suggest(str(trial + 1)) == first
    tune.on_trial_complete(str(MOST_LOST), None, error=True)
    assert isinstance(tune.failure, TrialError)
    assert tune.suggest("last") == Searcher.FINISHED


def test_as_many_trials_are_out_as_there_are_lanes_each_on_its_own() -> None:
    tune = TuneSearcher(campaign("guided", SearchLimits(trials=9)), TwoLanes())
    first, second = tune.suggest("a"), tune.suggest("b")
    assert {first["lane"], second["lane"]} == {"left", "right"}
    assert first["strategy"] != second["strategy"]
    assert tune.suggest("c") is None, "both lanes are busy"
    tune.on_trial_complete("a", answer(first, PretendBackend()))
    assert tune.suggest("c")["lane"] == first["lane"]


def test_a_search_is_not_over_while_a_trial_under_way_may_still_be_lost() -> None:
    tune = TuneSearcher(campaign("guided", SearchLimits(trials=2)), TwoLanes())
    first, second = tune.suggest("a"), tune.suggest("b")
    tune.on_trial_complete("a", answer(first, PretendBackend()))
    assert tune.suggest("c") is None
    tune.on_trial_complete("b", None, error=True)
    again = tune.suggest("c")
    assert again["strategy"] == second["strategy"]
    tune.on_trial_complete("c", answer(again, PretendBackend()))
    assert tune.suggest("d") == Searcher.FINISHED


def test_a_lane_that_can_run_no_more_is_given_up_and_its_trial_runs_on_another() -> None:
    lanes = TwoLanes()
    tune = TuneSearcher(campaign("guided", SearchLimits(trials=3)), lanes)
    first = tune.suggest("a")
    tune.on_trial_complete("a", answer(first, LostBackend()))
    assert tune.failure is None
    assert len(lanes.free) == 1
    again = tune.suggest("b")
    assert again["strategy"] == first["strategy"]
    assert again["lane"] != first["lane"]


def test_a_search_that_is_over_asks_for_no_lane() -> None:
    assert TuneSearcher(campaign("guided", SearchLimits(trials=9, out_of_time=lambda _: True)), NoLane()).suggest(
        "a"
    ) == (Searcher.FINISHED)


def test_nodes_gone_for_good_end_the_search_with_their_own_words() -> None:
    tune = TuneSearcher(campaign("guided", SearchLimits(trials=2)), NoLane())
    assert tune.suggest("a") == Searcher.FINISHED
    assert isinstance(tune.failure, NodesLostError)


def test_a_full_disk_ends_the_search_and_is_kept_for_the_one_who_runs_it() -> None:
    tune = tuned(campaign("guided", SearchLimits(trials=9), Kept(full_after=0)))
    tune.on_trial_complete("a", answer(tune.suggest("a"), PretendBackend()))
    assert isinstance(tune.failure, DatasetError)
    assert tune.suggest("b") == Searcher.FINISHED


def test_a_back_end_that_can_run_no_more_ends_the_search_with_its_own_words() -> None:
    tune = tuned(campaign("random", SearchLimits(trials=9)))
    tune.on_trial_complete("a", answer(tune.suggest("a"), LostBackend()))
    assert isinstance(tune.failure, AutosyncError)
    assert str(tune.failure) == "No worker is left for parameter_server."


def test_a_saved_searcher_restored_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    backend = PretendBackend()
    first = tuned(campaign("guided", SearchLimits(trials=9)))
    for trial in range(5):
        first.on_trial_complete(str(trial), answer(first.suggest(str(trial)), backend))
    first.save(str(tmp_path / "state.json"))
    assert json.loads((tmp_path / "state.json").read_text())["searcher"] == "guided"
    second = tuned(campaign("guided", SearchLimits(trials=9)))
    second.restore(str(tmp_path / "state.json"))
    ours, theirs = (json.loads(tuner.suggest("next")["request"])["strategy"] for tuner in (first, second))
    assert ours == theirs


def test_tune_may_name_our_metric_but_neither_another_nor_a_space_of_its_own() -> None:
    tune = tuned(campaign("guided", SearchLimits(trials=9)))
    assert tune.set_search_properties(METRIC, "min", {})
    assert tune.set_search_properties(None, None, {}, experiment="any")
    assert not tune.set_search_properties("loss", "min", {})
    assert not tune.set_search_properties(METRIC, "max", {})
    assert not tune.set_search_properties(METRIC, "min", {"x": 1})


def test_a_trial_that_failed_reports_no_step_time_and_its_reason() -> None:
    suggested = tuned(campaign("guided", SearchLimits(trials=9))).suggest("a")
    reported = answer(suggested, PretendBackend(broken=[suggested["strategy"]]))
    assert math.isnan(reported["step_seconds"])
    assert (reported["outcome"], reported["done"]) == ("failed", True)
    assert "this one is broken" in reported["reason"]


@pytest.fixture
def small_ray() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.thorough
@pytest.mark.usefixtures("small_ray")
def test_a_search_under_tune_is_the_search_without_it_and_tune_shows_its_results(tmp_path: Path) -> None:
    plain = campaign("guided", SearchLimits(trials=20))
    plain.run(PretendBackend().run)
    broken = digests(plain)[2]
    plain = campaign("guided", SearchLimits(trials=20))
    plain.run(PretendBackend([broken]).run)

    directory = RunDirectory.open(options(tmp_path / "run"))
    search = campaign("guided", SearchLimits(trials=20))
    run_with_tune(search, OneLane(PretendBackend([broken])), directory, "mlp", "autosync tune --model mlp --resume")
    assert search.records == plain.records

    trials = ExperimentAnalysis(str(directory.tune_directory / directory.name)).trials
    expected = {f"mlp-{record.label}-{record.strategy.digest[:8]}" for record in search.records}
    assert {str(trial) for trial in trials} == expected
    shown = {trial.last_result["strategy_digest"]: trial.last_result for trial in trials}
    for record in search.records:
        result = shown[record.strategy.digest]
        assert (result["model"], result["label"], result["outcome"]) == ("mlp", record.label, record.outcome)
        assert result["step_seconds"] == pytest.approx(record.median_seconds or math.nan, nan_ok=True)

    # A search that has run all its trials is over at once; one with more trials continues in the same directory.
    run_with_tune(search, OneLane(PretendBackend([broken])), directory, "mlp", "autosync tune --model mlp --resume")
    assert len(search.records) == 20
    more = campaign("guided", SearchLimits(trials=22))
    more.searcher.restore(search.state())
    more.take_up(search.records)
    run_with_tune(more, OneLane(PretendBackend([broken])), directory, "mlp", "autosync tune --model mlp --resume")
    assert len(more.records) == 22

    # Ray's own way to resume gives the last process's results, and names the command that resumes the search.
    restored = Tuner.restore(str(directory.tune_directory / directory.name), StrategyTrial)
    assert len(restored.get_results()) == 2
    with pytest.raises(AutosyncError) as refused:
        restored.fit()
    assert str(refused.value) == (
        "Ray's Tuner.restore shows the results of a search but cannot resume it, which needs a cluster and the "
        f"model; run: cd {Path.cwd()} && autosync tune --model mlp --resume"
    )
    assert len(Tuner.restore(str(directory.tune_directory / directory.name), StrategyTrial).get_results()) == 2

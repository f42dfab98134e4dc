"""The finals: the finalists, their order, and their protocol."""

from __future__ import annotations

from dataclasses import replace

from autosync.baselines.ddp import under_ddp
from autosync.spec import DDPSettings, RuntimeRecord
from autosync.tune.finalists import CANDIDATES, again, finalists
from autosync.tune.finals import take_turns
from tests.tune.pretend import PretendBackend
from tests.tune.records import found, record
from trials.trial import TrialRequest


def trials() -> list[RuntimeRecord]:
    """Two baselines and six candidates, one stopped and one failed."""
    seconds = (0.5, 0.1, 0.3, 0.4)
    searched = [record(strategy, [time]) for strategy, time in zip(found(4), seconds, strict=True)]
    more = found(6)[4:]
    ended = [record(more[0], [0.01], "stopped"), record(more[1], outcome="failed")]
    return [record("parameter_server", [0.35]), record("all_reduce_25mb", [0.2]), *searched, *ended]


def test_the_best_three_found_and_the_best_baseline_are_finalists_fastest_first() -> None:
    chosen = finalists(trials())
    assert [timing.median_seconds for timing in chosen] == [0.1, 0.2, 0.3, 0.4]
    assert [timing.purpose for timing in chosen].count("search") == CANDIDATES
    assert [timing.label for timing in chosen if timing.purpose == "baseline"] == ["all_reduce_25mb"]


def test_baselines_close_to_the_best_one_are_finalists_too_three_at_most() -> None:
    names = ("parameter_server", "all_reduce_25mb", "byteps", "all_reduce_per_variable", "partitioned_all_reduce")
    seconds = (0.209, 0.2, 0.211, 0.205, 0.202)
    chosen = finalists([record(name, [time]) for name, time in zip(names, seconds, strict=True)])
    assert [timing.label for timing in chosen] == [
        "all_reduce_25mb",
        "partitioned_all_reduce",
        "all_reduce_per_variable",
    ]
    chosen = finalists([record("parameter_server", [0.209]), record("byteps", [0.2]), record("all_reduce_25mb", [0.3])])
    assert [timing.label for timing in chosen] == ["byteps", "parameter_server", "all_reduce_25mb"]


def test_the_fastest_default_of_frameworks_is_a_finalist_even_if_it_was_stopped_early() -> None:
    rounds = [record("byteps", [0.2]), record("all_reduce_25mb", [0.6], "stopped"), record("all_reduce_64mb", [0.5])]
    assert [finalist.label for finalist in finalists(rounds)] == ["byteps", "all_reduce_64mb"]
    assert [finalist.label for finalist in finalists(rounds[:2])] == ["byteps", "all_reduce_25mb"]
    assert finalists(rounds[1:2]) == []


def test_the_default_of_a_pytorch_search_is_ddp_itself() -> None:
    own, buckets = record("byteps", [0.2]), record("all_reduce_25mb", [0.5])
    slow = replace(buckets, label="ddp", strategy=under_ddp(buckets.model, buckets.cluster, DDPSettings()))
    rounds = [replace(trial, framework="pytorch") for trial in (own, buckets, replace(slow, step_seconds=(0.6,)))]
    assert [finalist.label for finalist in finalists(rounds)] == ["byteps", "ddp"]


def test_a_strategy_that_was_timed_again_is_a_finalist_once_and_by_all_its_timings() -> None:
    records = trials()
    lucky = min(records, key=lambda timing: timing.median_seconds if timing.outcome == "ok" else 9.0)
    again = [replace(lucky, purpose="remeasure", step_seconds=(seconds,)) for seconds in (0.38, 0.39)]
    chosen = finalists([*records, *again])
    assert [timing.median_seconds for timing in chosen] == [0.2, 0.3, 0.1, 0.4]
    assert chosen[2] == lucky


def test_without_a_complete_trial_there_are_no_finalists() -> None:
    assert finalists([trial for trial in trials() if trial.outcome != "ok"]) == []
    assert [finalist.label for finalist in finalists(trials()[:1])] == ["parameter_server"]


def test_finalists_take_turns_and_each_record_is_kept_before_the_next_trial() -> None:
    chosen, kept, backend = finalists(trials())[:3], list[RuntimeRecord](), PretendBackend()
    order, requests = [], list[TrialRequest]()

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        assert len(kept) == len(requests)
        requests.append(request)
        order.append(request.strategy.digest)
        return backend.run(request)

    rounds = take_turns([again(finalist) for finalist in chosen], 4, run_trial, kept.append)
    assert order == [timing.strategy.digest for timing in chosen] * 4
    assert [len(turn) for turn in rounds] == [3] * 4
    assert [turn_record for turn in rounds for turn_record in turn] == kept
    assert {timing.purpose for timing in kept} == {"remeasure"}
    assert [timing.label for timing in rounds[0]] == [timing.label for timing in chosen]


def test_a_turn_has_half_the_steps_rounded_up_and_is_never_stopped_early() -> None:
    chosen, requests = finalists(trials())[:1], list[TrialRequest]()

    def run_trial(request: TrialRequest) -> RuntimeRecord:
        requests.append(request)
        return PretendBackend().run(request)

    (turn,) = take_turns([again(finalist) for finalist in chosen], 1, run_trial, lambda _: None)
    assert (requests[0].protocol.warmup_steps, requests[0].protocol.timed_steps) == (3, 5)
    assert requests[0].best_median_seconds is None
    assert len(turn[0].step_seconds) == 5


def test_a_slow_finalist_has_turns_that_cost_as_much_as_the_fastest_ones() -> None:
    fast, slow = record("byteps", [0.1]), record("all_reduce_25mb", [0.4], "stopped")
    protocols = [again(record, fastest_seconds=0.1).protocol for record in (fast, slow)]
    assert [(protocol.warmup_steps, protocol.timed_steps) for protocol in protocols] == [(3, 5), (1, 3)]
    close = record("byteps", [0.14])
    assert again(close, fastest_seconds=0.1).protocol == protocols[0]


def test_turns_end_with_the_round_before_time_is_out() -> None:
    requests = [again(finalist, "turn") for finalist in finalists(trials())[:2]]
    asked: list[int] = []

    def out_of_time() -> bool:
        asked.append(1)
        return len(asked) > 2

    turns = take_turns(requests, 5, PretendBackend().run, lambda _: None, out_of_time)
    assert [len(turn) for turn in turns] == [2, 2]

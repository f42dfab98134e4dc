"""The table, the verdict and the JSON at the end of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from autosync.cost import step_bound
from autosync.runs import verdict_in_words
from autosync.runs.documents import result_fault
from autosync.search.verdict.judging import Verdict, judge, with_default
from autosync.spec import AllReduce, Cast, RuntimeRecord, Strategy, VariableStrategy
from autosync.spec.node import LEAST_FIGURE, MOST_FIGURE
from autosync.tune.result import Result, beside_in_words, result_json, result_table, verdict_json
from tests.tune.pretend import MODEL
from tests.tune.records import baseline, found, record

FOUND, OTHER = found(2)
BASELINES = {
    baseline(name).digest for name in ("parameter_server", "all_reduce_25mb", "byteps", "all_reduce_per_variable")
}


def turns(*steps: dict[str, list[float]]) -> list[list[RuntimeRecord]]:
    """Re-measured rounds of `all_reduce_25mb` and of the strategy that was found."""
    rounds = []
    for turn in steps:
        records = [record("all_reduce_25mb", turn["baseline"])]
        if "found" in turn:
            records.append(record(FOUND, turn["found"]))
        rounds.append([replace(each, purpose="remeasure") for each in records])
    return rounds


def outcome(rounds: list[list[RuntimeRecord]]) -> Result:
    trials = [
        record("parameter_server", [0.4, 0.5, 0.6]),
        record("all_reduce_25mb", [0.19, 0.21]),
        record("byteps", [0.9], "stopped"),
        record("all_reduce_per_variable", outcome="failed"),
        record(FOUND, [0.1], predicted_seconds=0.1),
        record(OTHER, [0.15], predicted_seconds=0.3),
    ]
    return Result(MODEL, trials, rounds, judge(rounds, BASELINES))


FASTER = outcome(turns(*({"baseline": [0.2, 0.201, 0.199], "found": [0.1, 0.101, 0.099]} for _ in range(4))))
NOISY = outcome(
    turns(
        {"baseline": [0.2, 0.1, 0.3], "found": [0.19, 0.1, 0.3]},
        {"baseline": [0.1, 0.1, 0.3], "found": [0.2, 0.1, 0.3]},
        {"baseline": [0.3, 0.1, 0.3], "found": [0.15, 0.1, 0.3]},
    )
)
ALONE = outcome(turns({"baseline": [0.2]}, {"baseline": [0.2]}))


def text(outcome: Result) -> list[list[str]]:
    """The table as a person sees it, a list of cells a line."""
    buffer = StringIO()
    Console(file=buffer, width=120, markup=False).print(result_table(outcome))
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_the_table_holds_finalists_first_then_every_baseline_fastest_first() -> None:
    assert text(FASTER) == [
        ["strategy", "median", "95 % interval", "speed-up", "steps"],
        ["> guided", FOUND.digest[:8], "100.0 ms", "100.0 - 100.0", "2.00 x", "12 in 4 turns"],
        [
            "all_reduce_25mb",
            baseline("all_reduce_25mb").digest[:8],
            "200.0 ms",
            "200.0 - 200.0",
            "1.00 x",
            "12 in 4 turns",
        ],
        ["parameter_server", baseline("parameter_server").digest[:8], "500.0 ms", "400.0 - 600.0", "~ 0.40 x", "3"],
        ["byteps", baseline("byteps").digest[:8], "900.0 ms", "900.0 - 900.0", "~ 0.22 x", "stopped at 1"],
        ["all_reduce_per_variable", baseline("all_reduce_per_variable").digest[:8], "-", "failed"],
    ]


def test_speed_ups_are_over_the_baseline_that_the_verdict_names_as_in_the_report() -> None:
    lucky = [replace(record("parameter_server", [0.15]), purpose="remeasure")]
    shown = {line[0]: line for line in text(replace(FASTER, rounds=[[*FASTER.rounds[0], *lucky], *FASTER.rounds[1:]]))}
    assert shown["all_reduce_25mb"][4] == "1.00 x"
    assert shown["parameter_server"][4] == "1.33 x"


def test_what_was_timed_again_in_the_search_has_one_line() -> None:
    again = [replace(FASTER.trials[0], purpose="remeasure", started_at=9.0), *FASTER.trials[4:5]]
    assert text(replace(FASTER, trials=[*FASTER.trials, *again[:1]])) == text(FASTER)


def test_the_result_says_why_the_search_stopped() -> None:
    said = result_json(replace(FASTER, stopped_because="All 6 trials have run."), 1.0)
    assert said["stopped_because"] == "All 6 trials have run."


def test_the_winner_is_marked_even_when_it_is_not_the_first_line() -> None:
    marked = [line[0] for line in text(NOISY) if line[0].startswith("> ")]
    assert marked == ["> all_reduce_25mb"]


def test_a_verdict_beyond_noise_names_the_winner_the_speed_up_and_the_interval() -> None:
    low, high = FASTER.verdict.interval
    assert verdict_in_words(verdict_json(FASTER.verdict, {})) == (
        f"guided {FOUND.digest[:8]} is 2.00 x as fast as the best baseline, all_reduce_25mb "
        f"(95 % interval {low:.2f} to {high:.2f}, 4 rounds in turns)."
    )


def test_a_verdict_within_noise_returns_the_baseline_and_says_so() -> None:
    sentence = verdict_in_words(verdict_json(NOISY.verdict, {}))
    assert sentence.startswith("No found strategy beats the best baseline beyond the noise (best: 1.")
    assert sentence.endswith("; all_reduce_25mb is returned.")


def test_a_verdict_without_a_candidate_returns_the_baseline_and_says_why() -> None:
    failing = [
        [first, replace(second, outcome="failed", reason="it broke", step_seconds=())]
        for first, second in FASTER.rounds
    ]
    for ended, why in (
        (ALONE, "None ran all its steps in the search, so none was measured again."),
        (outcome(failing), "No candidate was timed in more than half of the rounds."),
    ):
        assert verdict_in_words(verdict_json(ended.verdict, {})) == (
            f"No found strategy could be compared; the best baseline, all_reduce_25mb, is returned. {why}"
        )


def test_a_reservation_of_the_verdict_is_said_with_it() -> None:
    once = outcome(turns({"baseline": [0.2, 0.201], "found": [0.1, 0.101]}))
    assert isinstance(once.verdict, Verdict)
    assert verdict_in_words(verdict_json(once.verdict, {})) == (
        "No found strategy beats the best baseline beyond the noise (best: 2.00 x, 1 round in turns is too few for an "
        "interval); all_reduce_25mb is returned."
    )
    rounds = turns(*[{"baseline": [0.2], "found": [0.1]}] * 4)
    rounds[0][1] = replace(rounds[0][1], outcome="failed", reason="it failed", step_seconds=())
    assert verdict_in_words(verdict_json(outcome(rounds).verdict, {})).endswith("Both were timed in 3 of 4 rounds.")


def test_the_table_and_the_verdict_state_one_speed_up_for_one_pair() -> None:
    """The ratio of the medians over all steps is 1.00 here, since rounds differ more than the strategies do."""
    seconds = [(0.2, 0.15), (0.3, 0.25), (0.4, 0.38), (0.5, 0.3), (0.31, 0.3)]
    uneven = outcome(turns(*({"baseline": [slow] * 3, "found": [fast] * 3} for slow, fast in seconds)))
    said = f"{uneven.verdict.speedup:.2f} x"
    assert said == "1.20 x"
    assert said in verdict_in_words(verdict_json(uneven.verdict, {}))
    assert [said in row for row in text(uneven)[1:3]] == [True, False]
    assert ["1.00 x" in row for row in text(uneven)[1:3]] == [False, True]


def test_the_result_is_json_without_infinities_and_says_what_the_table_says() -> None:
    for story in (FASTER, NOISY, ALONE, replace(FASTER, rounds=[], trials=FASTER.trials[3:4])):
        document = result_json(story, 12.5)
        assert json.loads(json.dumps(document, allow_nan=False)) == document
    document = result_json(FASTER, 12.5)
    assert (document["trials"], document["failed_trials"], document["wall_seconds"]) == (6, 1, 12.5)
    assert document["simulator_pairwise_accuracy"] == 1.0
    assert [each["label"] for each in document["strategies"]] == [
        line[0].removeprefix("> ") for line in text(FASTER)[1:]
    ]
    assert document["strategies"][-1] == {
        "label": "all_reduce_per_variable",
        "strategy_digest": baseline("all_reduce_per_variable").digest,
        "purpose": "baseline",
        "changes_statistics": False,
        "outcome": "failed",
        "remeasured": False,
        "median_seconds": None,
        "median_interval_seconds": None,
        "steps": 0,
    }
    assert document["verdict"]["winner"] == FOUND.digest
    assert document["verdict"]["baseline_label"] == "all_reduce_25mb"
    assert document["verdict"]["beyond_noise"] is True


def test_a_result_of_two_rounds_has_no_interval_as_the_schema_says() -> None:
    unsure = outcome(turns({"baseline": [0.2], "found": [0.1]}, {"baseline": [0.2], "found": [90.0]}))
    assert unsure.verdict.interval is None
    document = result_json(unsure, 1.0)
    assert not result_fault(document)
    assert "2 rounds in turns are too few for an interval" in verdict_in_words(document["verdict"])


def test_a_result_of_rounds_far_apart_is_as_the_schema_says() -> None:
    unsure = outcome(turns(*({"baseline": [0.2], "found": [found]} for found in (1e-6, 0.2, 1e6))))
    assert unsure.verdict.interval == (LEAST_FIGURE, MOST_FIGURE)
    document = result_json(unsure, 1.0)
    assert not result_fault(document)
    assert "95 % interval 0.00 to over 1000" in verdict_in_words(document["verdict"])


def test_beside_the_verdict_stand_the_default_of_frameworks_and_the_way_to_the_bound() -> None:
    verdict = with_default(FASTER.verdict, FASTER.rounds, BASELINES)
    result = replace(FASTER, verdict=verdict)
    document = result_json(result, 1.0)
    assert not result_fault(document)
    default, bound = document["verdict"]["over_default"], document["verdict"]["bound"]
    assert (default["label"], default["speedup"]) == ("all_reduce_25mb", verdict.speedup)
    bound_seconds = step_bound(MODEL, FASTER.trials[0].cluster).seconds
    assert bound["seconds"] == bound_seconds
    assert bound["share_gone"] == pytest.approx((0.2 - 0.1) / (0.2 - bound_seconds))
    first, second = beside_in_words(result)
    assert first.startswith(
        "guided is 2.00 x as fast as all_reduce_25mb, the frameworks' default bucket size (PyTorch's 25 MB, on "
        "autosync's own ring; 95 % interval "
    )
    assert second.startswith(f"It is {100 * bound['share_gone']:.0f} % [")
    assert beside_in_words(NOISY) == []


def test_a_winner_that_changes_the_statistics_is_marked_everywhere() -> None:
    shards = tuple(VariableStrategy(each.name, (AllReduce(0, compressor=Cast("bf16")),)) for each in MODEL.variables)
    lossy = Strategy(FOUND.replicas, shards)
    rounds = [[replace(record("all_reduce_25mb", [0.2, 0.21]), purpose="remeasure"), record(lossy, [0.1, 0.11])]] * 4
    won = Result(MODEL, [record(lossy, [0.1])], rounds, judge(rounds, BASELINES))
    assert text(won)[1][0] == "> guided (lossy)"
    assert result_json(won, 1.0)["strategies"][0]["changes_statistics"] is True
    assert verdict_in_words(verdict_json(won.verdict, {})).endswith(
        "It changes the statistics of training: what counts is the time to a loss, not the step."
    )

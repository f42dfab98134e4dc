"""The table, the verdict and the JSON at the end of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from autosync.cost import step_bound
from autosync.errors import AutosyncError
from autosync.report.findings import Findings
from autosync.report.sections.headline import headline_of
from autosync.runs import Run, bound_parts, verdict_in_words
from autosync.runs.documents import result_fault
from autosync.search.verdict.judging import Verdict, judge, with_default
from autosync.spec import (
    AllReduce,
    Cast,
    Figure,
    ModelProfile,
    Pace,
    RuntimeRecord,
    Strategy,
    VariableStrategy,
)
from autosync.spec.node import LEAST_FIGURE, MOST_FIGURE
from autosync.tune.result import SearchResult, result_json, result_table, verdict_json, verdict_lines, verdict_of
from tests.tune.pretend import MODEL
from tests.tune.records import baseline, found, record

FOUND, OTHER = found(2)
BASELINES = {
    baseline(name).digest for name in ("parameter_server", "all_reduce_25mb", "byteps", "all_reduce_per_variable")
}


def turns(*steps: dict[str, list[float]]) -> list[list[RuntimeRecord]]:
    """Re-measured rounds of `all_reduce_25mb` and of the candidate."""
    rounds = []
    for turn in steps:
        records = [record("all_reduce_25mb", turn["baseline"])]
        if "found" in turn:
            records.append(record(FOUND, turn["found"]))
        rounds.append([replace(timing, purpose="remeasure") for timing in records])
    return rounds


def outcome(rounds: list[list[RuntimeRecord]]) -> SearchResult:
    trials = [
        record("parameter_server", [0.4, 0.5, 0.6]),
        record("all_reduce_25mb", [0.19, 0.21]),
        record("byteps", [0.9], "stopped"),
        record("all_reduce_per_variable", outcome="failed"),
        record(FOUND, [0.1], predicted_seconds=0.1),
        record(OTHER, [0.15], predicted_seconds=0.3),
    ]
    return SearchResult(MODEL, trials, rounds, judge(rounds, BASELINES))


FASTER = outcome(turns(*({"baseline": [0.2, 0.201, 0.199], "found": [0.1, 0.101, 0.099]} for _ in range(4))))
NOISY = outcome(
    turns(
        {"baseline": [0.2, 0.1, 0.3], "found": [0.19, 0.1, 0.3]},
        {"baseline": [0.1, 0.1, 0.3], "found": [0.2, 0.1, 0.3]},
        {"baseline": [0.3, 0.1, 0.3], "found": [0.15, 0.1, 0.3]},
    )
)
ALONE = outcome(turns({"baseline": [0.2]}, {"baseline": [0.2]}))


def text(outcome: SearchResult) -> list[list[str]]:
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
        f"The strategy guided {FOUND.digest[:8]} is 2.00 x as fast as the best baseline, all_reduce_25mb "
        f"(95 % interval {low:.2f} to {high:.2f}, 4 paired rounds)."
    )


def test_a_verdict_within_noise_returns_the_baseline_and_says_so() -> None:
    sentence = verdict_in_words(verdict_json(NOISY.verdict, {}))
    assert sentence.startswith("No candidate is faster than the best baseline beyond the noise (the best candidate: 1.")
    assert sentence.endswith(", so all_reduce_25mb is returned.")


def test_a_verdict_without_a_candidate_returns_the_baseline_and_says_why() -> None:
    failing = [
        [first, replace(second, outcome="failed", reason="it broke", step_seconds=())]
        for first, second in FASTER.rounds
    ]
    for ended, why in (
        (ALONE, "No candidate finished all steps in the search, so none was re-measured."),
        (outcome(failing), "No candidate was timed in more than half of the rounds."),
    ):
        assert verdict_in_words(verdict_json(ended.verdict, {})) == (
            f"No candidate could be compared, so the best baseline, all_reduce_25mb, is returned. {why}"
        )


def test_a_reservation_of_the_verdict_is_said_with_it() -> None:
    once = outcome(turns({"baseline": [0.2, 0.201], "found": [0.1, 0.101]}))
    assert isinstance(once.verdict, Verdict)
    assert verdict_in_words(verdict_json(once.verdict, {})) == (
        "No candidate is faster than the best baseline beyond the noise (the best candidate: 2.00 x as fast, 1 round "
        "in turns is too few for an interval), so all_reduce_25mb is returned."
    )
    rounds = turns(*[{"baseline": [0.2], "found": [0.1]}] * 4)
    rounds[0][1] = replace(rounds[0][1], outcome="failed", reason="it failed", step_seconds=())
    assert verdict_in_words(verdict_json(outcome(rounds).verdict, {})).endswith("Both were timed in 3 of 4 rounds.")


def test_the_table_and_the_verdict_state_one_speed_up_for_one_pair() -> None:
    """The ratio of the medians over all steps is 1.00 here, because rounds differ more than the strategies do."""
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
    assert [row["label"] for row in document["strategies"]] == [line[0].removeprefix("> ") for line in text(FASTER)[1:]]
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
    unsure = outcome(turns(*({"baseline": [0.2], "found": [seconds]} for seconds in (1e-6, 0.2, 1e6))))
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
    first, second = verdict_lines(result)
    assert first.startswith(
        f"The strategy guided {FOUND.digest[:8]} is 2.00 x as fast as the best baseline and framework default, "
        "all_reduce_25mb (PyTorch's 25 MB buckets on autosync's own ring; 95 % interval "
    )
    assert second.startswith(f"It closes {100 * bound['share_gone']:.0f} % [")
    assert f"] of the gap between the best baseline and {1e3 * bound_seconds:.1f} ms" in second
    assert verdict_lines(NOISY)[1].startswith(
        f"The lower bound of a step with any exact strategy is {1e3 * bound_seconds:.1f} ms ("
    )
    assert result_json(NOISY, 1.0)["verdict"]["bound"] == {"seconds": bound_seconds, "reason": bound["reason"]}


@pytest.mark.parametrize("result", [FASTER, NOISY], ids=["gain", "noise"])
def test_the_verdict_is_read_back_from_the_result(result: SearchResult) -> None:
    verdict = with_default(result.verdict, result.rounds, BASELINES)
    document = json.loads(json.dumps(result_json(replace(result, verdict=verdict), 1.0)))["verdict"]
    strategies = {record.strategy.digest: record.strategy for turn in result.rounds for record in turn}
    assert verdict_of(document, strategies.get) == verdict
    with pytest.raises(AutosyncError, match="is in none of the records here; name the place"):
        verdict_of(document, {}.get)


def test_a_search_over_steps_without_a_barrier_is_held_against_their_bound(tmp_path: Path) -> None:
    first = FASTER.trials[0]
    slow, nodes = Figure(0.05, "stated"), (replace(node, pace=Pace(0.0, 0.04)) for node in first.cluster.nodes)
    links = tuple(replace(link, gbit_per_s=slow) for link in first.cluster.links)
    cluster = replace(first.cluster, nodes=tuple(nodes), links=links)
    ready = {variable.name: (1 + variable.ready_order) / len(MODEL.variables) for variable in MODEL.variables}
    model = replace(MODEL, profile=ModelProfile(0.1, 0.3, ready))
    barrier, none = (step_bound(model, cluster, overlaps).seconds for overlaps in (False, True))
    assert none < 0.98 * barrier
    overlapped = replace(first.strategy, overlap_next_forward=True)
    for strategy, bounds in ((first.strategy, [barrier]), (overlapped, [barrier, none])):
        trial = replace(first, model=model, cluster=cluster, strategy=strategy)
        result = result_json(replace(FASTER, model=model, trials=[trial, *FASTER.trials]), 1.0)
        assert result["verdict"]["bound"]["seconds"] == bounds[-1]
        run = Run(tmp_path, {"cluster": cluster.to_json(), "name": "run"}, records=(trial,))
        facts = [value for name, value in headline_of(Findings(run)).facts if name.startswith("lower bound")]
        assert [float(value.split()[0]) for value in facts] == pytest.approx([1e3 * bound for bound in bounds], abs=0.1)


def test_a_default_that_is_not_the_best_baseline_has_a_speed_up_of_its_own() -> None:
    result = replace(FASTER, verdict=with_default(FASTER.verdict, FASTER.rounds, BASELINES))
    verdict = result_json(result, 1.0)["verdict"]
    default = {**verdict["over_default"], "strategy_digest": "d" * 16, "label": "all_reduce_64mb", "speedup": 2.5}
    proven = verdict_in_words(verdict | {"over_default": default})
    assert ", and 2.50 x as fast as the framework default, all_reduce_64mb (Horovod's 64 MB buckets on " in proven
    unproven = verdict_in_words(verdict | {"over_default": default, "beyond_noise": False})
    assert ", so all_reduce_25mb is returned. The baseline is 2.50 x as fast as the framework default, " in unproven


@pytest.mark.parametrize(
    ("reason", "parts"),
    [
        ("paced passes and then link left > core", "forward and backward pass, then link left > core at full rate"),
        (
            "paced passes from reads to gradients and then link left > core",
            "passes from the reads of variables to their gradients, then link left > core at full rate",
        ),
        ("the paced passes", "forward and backward pass alone"),
        ("link left > core", "link left > core at full rate"),
        ("computing on the 2 cores of here", "computing on the 2 cores of here"),
    ],
)
def test_the_parts_of_a_bound_are_named(reason: str, parts: str) -> None:
    assert bound_parts(reason) == parts


def test_a_winner_that_changes_the_statistics_is_marked_everywhere() -> None:
    shards = tuple(
        VariableStrategy(variable.name, (AllReduce(0, compressor=Cast("bf16")),)) for variable in MODEL.variables
    )
    lossy = Strategy(FOUND.replicas, shards)
    rounds = [[replace(record("all_reduce_25mb", [0.2, 0.21]), purpose="remeasure"), record(lossy, [0.1, 0.11])]] * 4
    won = SearchResult(MODEL, [record(lossy, [0.1])], rounds, judge(rounds, BASELINES))
    assert text(won)[1][0] == "> guided (lossy)"
    assert result_json(won, 1.0)["strategies"][0]["changes_statistics"] is True
    assert verdict_in_words(verdict_json(won.verdict, {})).endswith(
        "It changes the statistics of training, so compare the time to a loss, not the step time."
    )

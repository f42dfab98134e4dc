"""Progress on a terminal, and as plain lines elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from autosync.spec import RuntimeRecord
from autosync.tune.progress import Standing, ranking_in_words
from autosync.tune.terminal import Progress
from autosync.words.quantities import duration, milliseconds
from tests.tune.records import found, record


def trials() -> list[RuntimeRecord]:
    first, second, third = found(3)
    return [
        record("parameter_server", [0.2, 0.3, 0.4]),
        record("byteps", [0.35]),
        record(first, [0.1], predicted_seconds=0.2),
        record(second, [0.25], predicted_seconds=0.3),
        record(third, [0.9], "stopped"),
        record("all_reduce_25mb", outcome="failed"),
        record("parallax", outcome="timed_out"),
    ]


def test_a_lost_trial_is_shown_but_not_counted() -> None:
    console = Console(file=StringIO(), width=120)
    progress = Progress(console, 3, None, lambda: 0.0)
    progress(record("byteps", outcome="lost"))
    progress(record("byteps", [0.35]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].split()[0] == "again"
    assert lines[1].split()[0] == "1/3"
    assert lines[0].index("byteps") == lines[1].index("byteps")


def test_the_standing_counts_only_complete_trials_as_best_and_failures_apart_from_stops() -> None:
    standing, records = Standing.of(trials()), trials()
    assert standing.best == records[2]
    assert standing.best_seconds == records[2].median_seconds
    assert standing.best_baseline_seconds == records[0].median_seconds
    assert standing.failed == 2
    assert standing.rank_agreement == 1.0


def test_a_strategy_that_was_timed_again_stands_by_all_its_timings() -> None:
    first, second, _ = found(3)
    lucky, steady = record(first, [0.1]), record(second, [0.2])
    again = replace(lucky, purpose="remeasure", step_seconds=(0.5,))
    standing = Standing.of([lucky, steady, again])
    assert (standing.best, standing.best_seconds) == (steady, 0.2)


def test_an_empty_standing_has_no_best_and_no_agreement() -> None:
    standing = Standing.of([])
    assert (standing.best, standing.best_seconds, standing.best_baseline_seconds) == (None, None, None)
    assert standing.failed == 0
    assert math.isnan(standing.rank_agreement)


def ranked(count: int) -> list[RuntimeRecord]:
    """Candidates, each predicted a tenth of a second too slow."""
    seconds = [0.1 * (place + 1) for place in range(count)]
    return [record(strategy, [s], predicted_seconds=s + 0.1) for strategy, s in zip(found(count), seconds, strict=True)]


def test_how_well_a_simulator_ranked_is_said_of_five_strategies_but_not_of_four() -> None:
    assert Standing.of(ranked(4)).ranking_share() is None
    assert Standing.of(ranked(5)).ranking_share() == "100 %"


def test_what_the_simulator_picked_is_told_apart_from_baselines() -> None:
    picked = ranked(5)
    baselines = [replace(timing, purpose="baseline", predicted_seconds=1 / timing.step_seconds[0]) for timing in picked]
    stopped = [replace(baselines[0], outcome="stopped", reason="slow"), *baselines[1:]]
    of_picked = "100 % of candidate pairs in the right order (candidates are close by design)."
    assert ranking_in_words([*picked, *baselines[:4]]) == f"Simulator ranking: {of_picked}"
    assert ranking_in_words([*picked, *stopped]) == f"Simulator ranking: 0 % of baseline pairs and {of_picked}"
    assert ranking_in_words(picked[:4]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (190, "3 min 10 s"),
        (3599.6, "1 h 00 min"),
        (3900, "1 h 05 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_milliseconds_have_one_digit_and_nothing_is_a_dash() -> None:
    assert (milliseconds(0.01234), milliseconds(None)) == ("12.3 ms", "-")


def test_each_trial_is_one_plain_line_when_output_is_no_terminal() -> None:
    text, ticks = StringIO(), count()
    with Progress(Console(file=text, width=80), 30, None, lambda: float(next(ticks))) as progress:
        for trial in trials():
            progress(trial)
    lines = text.getvalue().splitlines()
    digests = [trial.strategy.digest[:8] for trial in trials()]
    assert lines == [
        f"   1/30  {digests[0]}  parameter_server              300.0 ms  best so far",
        f"   2/30  {digests[1]}  byteps                        350.0 ms  best 300.0 ms",
        f"   3/30  {digests[2]}  guided                        100.0 ms  best so far",
        f"   4/30  {digests[3]}  guided                        250.0 ms  best 100.0 ms",
        f"   5/30  {digests[4]}  guided                         stopped  it stopped",
        f"   6/30  {digests[5]}  all_reduce_25mb                 failed  it failed",
        f"   7/30  {digests[6]}  parallax                      timed_out  it timed_out",
    ]


@pytest.mark.parametrize(
    ("count", "seconds", "budget", "told"),
    [
        (
            200,
            20.0,
            None,
            "The other 197 trials will take about 1 h 05 min, or less because slow trials are stopped early; ",
        ),
        (200, 2.0, None, None),
        (20, 20.0, None, None),
        (200, 20.0, 300.0, None),
    ],
)
def test_a_long_search_says_after_three_trials_how_long_it_will_take(
    count: int, seconds: float, budget: float | None, told: str | None
) -> None:
    text, now = StringIO(), [0.0]
    progress = Progress(Console(file=text, width=80), count, budget, lambda: now[0])
    for trial in trials():
        now[0] += seconds
        progress(trial)
    said = [(place, line) for place, line in enumerate(text.getvalue().splitlines()) if "trials will take" in line]
    assert [(3, told)] * bool(told) == [(place, line.partition("set a limit")[0]) for place, line in said]


def test_reasons_with_brackets_are_shown_as_they_are() -> None:
    text = StringIO()
    failed = record("byteps", outcome="failed")
    object.__setattr__(failed, "reason", "shape [3, 4] of [bold]x[/bold]")
    Progress(Console(file=text, width=80), 1, None, lambda: 0.0)(failed)
    assert text.getvalue().endswith("failed  shape [3, 4] of [bold]x[/bold]\n")


def test_a_resumed_run_counts_on_from_its_earlier_trials() -> None:
    text = StringIO()
    progress = Progress(Console(file=text, width=80), 30, None, lambda: 0.0)
    progress.start_from(trials()[:3])
    progress(trials()[3])
    assert text.getvalue().startswith("   4/30")
    assert text.getvalue().endswith("best 100.0 ms\n")


def test_a_terminal_shows_a_live_line_with_the_standing_and_the_time_left() -> None:
    text, now = StringIO(), [0.0]
    console = Console(file=text, width=160, force_terminal=True, color_system=None)
    with Progress(console, 13, 100.0, lambda: now[0]) as progress:
        progress.start_from(ranked(5)[2:])
        for trial in trials():
            now[0] += 10.0
            progress(trial)
    last = next(line for line in text.getvalue().splitlines() if "trial 10 of 13" in line)
    for part in ("best 100.0 ms", "best baseline 300.0 ms", "100 % of pairs ranked right", "2 failed"):
        assert part in last
    assert "30 s left" in last


@pytest.mark.parametrize(
    ("budget", "gone", "left"),
    [(None, 0, "30 s"), (35, 0, "15 s"), (5, 0, "0 s"), (900, 0, "30 s"), (900, 870, "10 s"), (None, 870, "30 s")],
)
def test_time_left_is_what_ends_first_the_trials_or_the_budget(budget: float | None, gone: float, left: str) -> None:
    """`gone` seconds have passed before: while links were measured, or in another process."""
    text, now = StringIO(), [float(gone)]
    console = Console(file=text, width=160, force_terminal=True, color_system=None)
    with Progress(console, 5, budget, lambda: now[0]) as progress:
        for trial in trials()[:2]:
            now[0] += 10.0
            progress(trial)
    assert f"best baseline 300.0 ms  {left} left" in text.getvalue()

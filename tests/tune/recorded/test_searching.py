"""A search of recorded trials from the command line: its output and its refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.commands.replay import main
from autosync.errors import DatasetError
from autosync.tune.options import TuneOptions
from autosync.tune.recorded.searching import search_recorded
from tests.tune.recorded.examples import cell, write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data"))


def options(records: Path, **chosen: object) -> TuneOptions:
    values = {"model": "mlp@two", "out": records, "trials": 15, "searcher": "evolution"}
    return TuneOptions.create(**(values | chosen))


def test_the_command_says_each_improvement_with_its_time_and_what_is_true_at_the_end(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(data), "--model", "mlp@two", "--searcher", "random", "--trials", "9"]) == 0
    first, *better, last = capsys.readouterr().out.splitlines()
    pooled = cell()
    assert first == f"mlp@two: {len(pooled.trials)} strategies were timed, {len(pooled.baselines)} of them baselines."
    milliseconds = [float(line.split(": ")[1].split(" ms")[0]) for line in better]
    assert milliseconds == sorted(milliseconds, reverse=True)
    assert f"the best of the cell {1e3 * pooled.best_seconds:.1f} ms; " in last
    assert f"{pooled.best_baseline[0]}, {1e3 * pooled.baseline_seconds:.1f} ms" in last


def test_the_same_seed_says_the_same(data: Path) -> None:
    def said(seed: int) -> list[str]:
        lines: list[str] = []
        assert search_recorded(options(data, seed=seed, searcher="random", trials=20), data, lines.append) == 0
        return lines

    assert said(1) == said(1)


def test_it_ends_with_the_time_or_out_of_patience_as_a_search_that_times_does(data: Path) -> None:
    def said(**chosen: object) -> list[str]:
        lines: list[str] = []
        assert search_recorded(options(data, searcher="random", trials=30, **chosen), data, lines.append) == 0
        return lines

    assert any("every strategy in it was timed" in line for line in said())
    least = min(trials[0].total_seconds for trials in cell().trials.values())
    (ended,) = (line for line in said(time_budget_seconds=10 * least) if "time budget is used up" in line)
    assert 0 < int(ended.split(" durations of ")[1].split()[0]) <= 10
    (ended,) = (line for line in said(time_budget_seconds=1e-9) if "time budget is used up" in line)
    assert ended == "The time budget is used up by the recorded durations of 1 trial."
    assert any("found no strategy" in line for line in said(patience=3))


def test_a_cell_that_was_not_recorded_is_refused(data: Path) -> None:
    with pytest.raises(DatasetError, match=r"are mlp@three, mlp@two; not 'mlp@four'; name one of them\."):
        search_recorded(options(data, model="mlp@four"), data, print)


@pytest.mark.parametrize("option", ["--out", "--resume", "--emulate", "--steps"])
def test_an_option_without_sense_for_recorded_trials_is_refused(
    option: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(data), "--model", "mlp@two", option, "1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"replay: No such option '{option}'.")

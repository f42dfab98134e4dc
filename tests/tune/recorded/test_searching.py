"""A search of recorded trials from the command line: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.commands.tune import main
from autosync.errors import DatasetError
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.recorded.searching import search_recorded
from tests.tune.recorded.examples import cell, write_dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data"))


def options(records: Path, **chosen: object) -> TuneOptions:
    given = {"model": "mlp@two", "replay": records, "out": records, "trials": 15, "searcher": "evolution"}
    return TuneOptions.create(**(given | chosen))


def test_the_command_says_each_improvement_with_its_time_and_what_is_true_at_the_end(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--replay", str(data), "--model", "mlp@two", "--searcher", "random", "--trials", "9"]) == 0
    first, *better, last = capsys.readouterr().out.splitlines()
    found = cell()
    assert first == f"mlp@two: {len(found.trials)} strategies were timed, {len(found.baselines)} of them baselines."
    milliseconds = [float(each.split(": ")[1].split(" ms")[0]) for each in better]
    assert milliseconds == sorted(milliseconds, reverse=True)
    assert f"the best of the cell {1e3 * found.best_seconds:.1f} ms; " in last
    assert f"{found.best_baseline[0]}, {1e3 * found.baseline_seconds:.1f} ms" in last


def test_the_same_seed_says_the_same(data: Path) -> None:
    def said(seed: int) -> list[str]:
        lines: list[str] = []
        assert search_recorded(options(data, seed=seed, searcher="random", trials=20), lines.append) == 0
        return lines

    assert said(1) == said(1)


def test_it_ends_with_the_time_or_out_of_patience_as_a_search_that_times_does(data: Path) -> None:
    def said(**chosen: object) -> list[str]:
        lines: list[str] = []
        assert search_recorded(options(data, searcher="random", trials=30, **chosen), lines.append) == 0
        return lines

    assert any("every strategy in it was timed" in line for line in said())
    least = min(trials[0].total_seconds for trials in cell().trials.values())
    (ended,) = (line for line in said(time_budget_seconds=10 * least) if "time is used up" in line)
    assert 0 < int(ended.split(" of ")[1].split()[0]) <= 10
    (ended,) = (line for line in said(time_budget_seconds=1e-9) if "time is used up" in line)
    assert ended == "The time is used up, by the recorded lengths of 1 trial."
    assert any("found nothing" in line for line in said(patience=3))


def test_a_cell_that_was_not_recorded_is_refused(data: Path) -> None:
    with pytest.raises(DatasetError, match=r"are mlp@three, mlp@two; not 'mlp@four'; name one of them\."):
        search_recorded(options(data, model="mlp@four"), print)


def test_a_directory_to_keep_it_in_is_refused_and_not_made(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--replay", str(data), "--model", "mlp@two", "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr()
    sentence = "tune: --replay searches recorded trials and keeps nothing; leave --out out.\n"
    assert (told.out, told.err) == ("", sentence)
    assert not (tmp_path / "run").exists()


def test_going_on_with_it_is_refused_as_such_and_not_for_want_of_a_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--replay", str(data), "--model", "mlp@two", "--resume"]) == 2
    assert "keeps nothing; leave --resume, --without-rule and --try-first out." in capsys.readouterr().err


def test_what_makes_no_sense_with_it_is_refused(data: Path) -> None:
    with pytest.raises(OptionsError, match="--replay and --emulate exclude each other; leave one of them out"):
        options(data, emulate="4x200mbit")
    with pytest.raises(OptionsError, match="keeps nothing; leave --resume, --without-rule and --try-first out"):
        options(data, resume=True)
    with pytest.raises(OptionsError, match=r"--replay times nothing; leave --steps and --counterfactuals out\."):
        options(data, timed_steps=20, counterfactuals=3)
    with pytest.raises(OptionsError, match=r"--replay times nothing; leave --data out\."):
        options(data, data=data)
    with pytest.raises(OptionsError, match="needs --replay, the folder of the records"):
        search_recorded(TuneOptions.create(model="mlp@two", out=data), print)

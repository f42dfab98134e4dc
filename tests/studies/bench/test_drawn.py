"""Cells with drawn noise: the noise-free times of their strategies, and the measurements of their trials."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.dataset import ResultStore
from autosync.search.protocol import Proposal
from autosync.tune.recorded.table import RecordedTable
from studies.bench.columns import SEARCHES
from studies.bench.contenders import PriorKnowledge
from studies.bench.oracle import TRIALS, draw_cell, draw_times
from studies.bench.replaying import SearchJob, replay_search
from studies.commands.bench import main
from tests.tune.recorded.examples import cell, write_dataset

NOISY = replace(cell(), deviation=0.1)


def test_the_median_of_trials_is_what_is_drawn_and_their_spread_is_the_noise() -> None:
    drawn, without = draw_cell(NOISY, 3), draw_times(NOISY, 3)
    assert list(drawn.trials) == list(NOISY.trials)
    assert len(without) > 10
    for strategy, log_seconds in without.items():
        logs = np.log([record.median_seconds for record in drawn.trials[strategy]])
        assert len(logs) == TRIALS
        assert math.log(drawn.seconds[strategy]) == pytest.approx(log_seconds, abs=1e-4)
        assert logs.std() == pytest.approx(0.1, rel=0.05)
        assert {record.strategy for record in drawn.trials[strategy]} == {NOISY.trials[strategy][0].strategy}


def test_what_failed_still_fails_and_baselines_stay_baselines() -> None:
    drawn = draw_cell(NOISY, 0)
    failed = [strategy for strategy, seconds in NOISY.seconds.items() if not math.isfinite(seconds)]
    assert failed
    assert all(drawn.trials[strategy] == NOISY.trials[strategy] for strategy in failed)
    assert drawn.baselines == NOISY.baselines
    assert (drawn.name, drawn.digest, drawn.deviation) == (NOISY.name, NOISY.digest, NOISY.deviation)


def test_seeds_draw_different_days_and_each_the_same_one_again() -> None:
    days = [draw_cell(NOISY, seed).seconds for seed in (0, 1, 0)]
    assert days[0] == days[2] != days[1]


def test_without_noise_it_is_the_cell_itself() -> None:
    still = replace(NOISY, deviation=1e-6)
    for strategy, seconds in draw_cell(still, 0).seconds.items():
        assert seconds == pytest.approx(NOISY.seconds[strategy], rel=2e-3)


def test_who_times_a_strategy_again_is_told_another_time() -> None:
    drawn = draw_cell(NOISY, 0)
    table, (label, strategy) = RecordedTable(drawn, 0), drawn.baselines[0]
    told = [table(Proposal(strategy, label)).median_seconds for _ in range(TRIALS)]
    assert len(set(told)) == TRIALS
    assert np.median(told) == pytest.approx(drawn.seconds[strategy])


@pytest.mark.parametrize("searcher", ["random", "guided-analytic", "gp"])
def test_a_search_on_one_is_told_noise_and_judged_without(searcher: str) -> None:
    drawn = draw_cell(NOISY, 2)
    row = replay_search(
        drawn, SearchJob(drawn.name, drawn.digest, searcher, True, 15, 0, drawn=True), 2, PriorKnowledge()
    )
    finite = [pair for pair in zip(row["measured_seconds"], row["true_seconds"], strict=True) if pair[0] is not None]
    ratios = np.log([measured / true for measured, true in finite])
    assert 0.02 < ratios.std() < 0.2
    assert row["best_seconds"] == min(drawn.seconds.values())
    assert row["baseline_seconds"] == min(drawn.seconds[strategy] for _, strategy in drawn.baselines)


def test_drawn_searches_are_kept_and_shown_beside_recorded_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write_dataset(tmp_path / "data"), tmp_path / "out"
    asked = ["replay", "--data", str(data), "--out", str(out), "--trials", "15", "--processes", "1", "--seeds", "5"]
    asked += ["--searchers", "random,evolution"]
    assert main([*asked, "--drawn"]) == 0
    assert "noise drawn, seeds 0 to 4" in capsys.readouterr().out
    assert main([*asked, "--drawn"]) == 0
    assert "0 searches are new." in capsys.readouterr().out
    rows = ResultStore(out / "drawn", SEARCHES).read()
    assert len(rows) == 20
    assert len({row["best_seconds"] for row in rows}) == 10  # one day per cell and seed, shared by both searchers
    assert not (out / "searches").exists()
    assert main(["tables", "--out", str(out)]) == 0
    assert "## Searchers, noise drawn, baselines given" in (out / "report" / "benchmarks.md").read_text("utf-8")
    assert "2 cells, noise drawn, baselines given" in (out / "report" / "summary_drawn_trials.svg").read_text("utf-8")
    with (out / "report" / "summary_drawn.csv").open(encoding="utf-8") as file:
        assert {line["searcher"] for line in csv.DictReader(file)} == {"random", "evolution"}
    assert main(asked) == 0
    assert "20 searches are new." in capsys.readouterr().out
    assert main(["merge", "--out", str(out)]) == 0
    assert "drawn: merged 4 files into one." in capsys.readouterr().out

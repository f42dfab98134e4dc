"""Experiments of the literature: their kept rows, their claims and their page."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from autosync.dataset import ResultStore
from autosync.stats.estimate import Estimate
from studies.commands.bench import main
from studies.literature.experiment import Claim, exactly, mean_ratio
from studies.literature.job import EXPERIMENTS, rows_of
from studies.literature.page import claims_table
from studies.literature.rows import COLUMNS, FigureRow, FigureRows
from studies.literature.waiting import oracle

QUICK = ("ar-topk", "elfving", "batches")


def test_quick_experiments_are_made_once_and_their_claims_are_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["literature", *QUICK, "--seeds", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "ar-topk 1/3: table" in said
    assert "yes    the counts that arithmetic gives: 9 (expected 9, bound 9)" in said
    page = (tmp_path / "literature_page/literature.md").read_text(encoding="utf-8")
    assert "| winners of the table's rows | 9 | 9 | 9 | yes |" in page
    assert all((tmp_path / f"literature_page/{name}.png").stat().st_size > 5000 for name in QUICK)
    assert main(command) == 0
    again = capsys.readouterr().out
    assert "1/3" not in again, "the result is kept"
    rows = rows_of(EXPERIMENTS["batches"], tmp_path)
    assert rows.cells[0] == "1 and 0.25"
    assert len(rows.values("1 and 0.25", "dynamic", "examples a second")) == 2


def test_an_experiment_that_there_is_not_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["literature", "bsdgd", "--out", str(tmp_path)]) == 2
    assert "NAMES needs experiments among ar-topk, elfving" in capsys.readouterr().err


def test_what_another_version_made_does_not_count(tmp_path: Path) -> None:
    store = ResultStore.create(tmp_path / "literature", COLUMNS)
    row = {"experiment": "elfving", "version": 0, "cell": "c", "arm": "a", "seed": 0, "figure": "f", "value": 1.0}
    store.write("elfving-0-counts", [row | {"time": "virtual", "numbers": "none"}])
    assert rows_of(EXPERIMENTS["elfving"], tmp_path).all == ()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_about_nothing_are_open(name: str) -> None:
    table = claims_table(EXPERIMENTS[name], FigureRows(()))
    assert all(row[-1] in ("open", "-", "NO", "yes") for row in table.rows)


def test_a_claim_holds_within_its_figures() -> None:
    assert Claim("x", exactly(2.0), least=1.5, most=2.0).holds
    assert not Claim("x", Estimate(1.4, 1.0, 3.0), least=1.5).holds
    rows = FigureRows(
        tuple(
            FigureRow("c", arm, seed, "s", value * (seed + 1))
            for arm, value in (("a", 2.0), ("b", 4.0))
            for seed in (0, 1)
        )
    )
    assert mean_ratio(rows.ratios("c", "b", "a", "s")) == Estimate(2.0, 2.0, 2.0)


def test_the_oracle_is_the_best_of_all_choices_of_counts() -> None:
    times = np.exp(np.random.default_rng(0).normal(0, 0.5, (4, 3)))
    ordered = np.sort(times, axis=1)
    best = max(
        sum(counts) / sum(ordered[step, count - 1] for step, count in enumerate(counts))
        for counts in itertools.product((1, 2, 3), repeat=4)
    )
    assert oracle(times) == pytest.approx(best)

"""Speed-ups, targets and tables, from made-up rows of results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from autosync.errors import BenchError
from autosync.stats.cells import CellName
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.methods import ALL_REDUCE
from studies.proof.outcomes import by_cell, outcomes_of, over_seeds
from studies.proof.page import write_page
from studies.proof.pictures import curves_picture, gains_picture
from studies.proof.results import ProofResults
from studies.proof.tables import ALL_CELLS, NOT_RUN, gains_table, methods_table, steps_table, trials_table
from studies.proof.targets import targets_table

DRIFT = (1.0, 1.1, 0.9, 1.05)
"""The machine's factor in each round, which no speed-up of the same rounds shows."""

BERT = CellName("bert-mini", "paced_two_racks")


def finals(cell: CellName = BERT, seed: int = 0, bound: float = 0.1, **milliseconds: float) -> list[dict[str, Any]]:
    """The finals of a job; a role with an underscore is written with a space or a hyphen."""
    names = {"all_reduce_by_hand": ALL_REDUCE, "ddp_by_hand": "ddp by hand"}
    return [
        {
            "cell": str(cell), "model": cell.model, "cluster": cell.cluster, "seed": seed, "strategy": role,
            "label": role, "roles": [names.get(role, role)], "seconds": [1e-3 * step * factor for factor in DRIFT],
            "has_barrier": False, "bound_with_barrier_seconds": 1.1 * bound, "bound_seconds": bound,
            "limit": "link left > core", "engine": "1", "finished_at": 0.0,
        }
        for role, step in milliseconds.items()
    ]  # fmt: skip


def method(name: str, steps: list[float | None], cell: CellName = BERT, **changes: Any) -> dict[str, Any]:
    known = {
        "cell": str(cell), "model": cell.model, "cluster": cell.cluster, "seed": 0, "method": name, "version": "1",
        "strategies": [f"{name}{place}" for place in range(len(steps))], "labels": ["x"] * len(steps),
        "purposes": ["search"] * len(steps), "outcomes": ["ok"] * len(steps), "measured_seconds": steps,
        "predicted_seconds": [None] * len(steps), "trial_seconds": 9.0, "thinking_seconds": 1.0,
    }  # fmt: skip
    return known | changes


USUAL = {"default": 300.0, "ddp_by_hand": 250.0, "baseline": 200.0, "all_reduce_by_hand": 180.0, "tpe": 190.0}


def test_speed_ups_are_paired_by_rounds_so_that_drift_cancels() -> None:
    (job,) = outcomes_of(finals(guided=150.0, **USUAL), [])
    assert job.speedup(DEFAULT_ROLE).value == pytest.approx(2.0)
    assert job.speedup(DEFAULT_ROLE).low == pytest.approx(2.0)
    assert job.speedup(BASELINE_ROLE).value == pytest.approx(4 / 3)
    assert job.gap_closed == pytest.approx((205 - 205 * 0.75) / (205 - 100))
    assert job.room(ALL_REDUCE) == pytest.approx(1.845)
    assert math.isnan(job.speedup("gp").value)


def test_a_strategy_that_is_its_own_rival_gains_nothing() -> None:
    rows = finals(guided=150.0, **USUAL)
    rows[-3]["roles"].append("guided")  # the best baseline
    (job,) = outcomes_of([row for row in rows if row["roles"] != ["guided"]], [])
    assert job.speedup(BASELINE_ROLE).value == 1.0
    assert job.gap_closed == 0.0


def test_a_failed_turn_leaves_its_round_out() -> None:
    rows = finals(guided=150.0, **USUAL)
    rows[0]["seconds"][2] = None
    (job,) = outcomes_of(rows, [])
    assert job.speedup(BASELINE_ROLE).value == pytest.approx(4 / 3)


def test_trials_are_counted_to_within_five_per_cent_of_the_best_of_all_methods() -> None:
    guided = method("guided", [0.3, 0.2, 0.104, 0.1], predicted_seconds=[0.3, 0.2, 0.05, 0.1])
    rows = [guided, method("tpe", [0.3, None, 0.2])]
    (job,) = outcomes_of(finals(guided=100.0, **USUAL), rows)
    assert (job.trials_to_best("guided"), job.trials_to_best("tpe")) == (3, math.inf)
    assert job.best_so_far("tpe") == pytest.approx([3.0, 3.0, 2.0])
    assert job.rank_accuracy == pytest.approx(5 / 6)


def test_seeds_are_averaged_and_cells_that_have_not_run_are_listed() -> None:
    rows = finals(guided=150.0, **USUAL) + finals(seed=1, guided=100.0, **USUAL)
    cells = by_cell(outcomes_of(rows, [method("guided", [0.2])]))
    assert over_seeds(cells[BERT], (BASELINE_ROLE,)).value == pytest.approx(math.sqrt(4 / 3 * 2))
    text = gains_table(cells).markdown()
    assert text.count(NOT_RUN) == len(ALL_CELLS) - 1
    assert "| paced_two_racks | bert-mini | 2 | 2.45 " in text
    assert "| 307.5 | 256.2 | 205.0 | baseline | 184.5 |" in steps_table(cells).markdown()
    assert "| paced_two_racks | bert-mini |" in trials_table(cells).markdown()
    assert "| guided | 1 | 1 " in methods_table(cells[BERT]).markdown()


def answers(rows: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    return {target: row for target, *row in targets_table(by_cell(outcomes_of(rows, []))).rows}


def test_targets_are_reached_missed_or_forbidden_by_the_bounds() -> None:
    reached = answers(finals(guided=150.0, **USUAL))
    assert [row[0] for row in reached.values()] == ["yes", "yes", "no", "yes", "yes", "no"]
    tight = finals(bound=0.19, guided=196.0, default=210.0, baseline=200.0, all_reduce_by_hand=200.0)
    forbidden = answers(tight)
    assert [row[0] for row in forbidden.values()] == ["no", "-", "no", "-", "yes", "no"]
    assert forbidden["over DDP's default, 1.5 x geometric mean"][1:] == ["1.07 (n = 1)", "1.13: forbidden"]
    assert forbidden["over the best baseline, 1.5 x in one cell"][2] == f"1.08 in {BERT}: forbidden"


def test_a_job_that_is_slower_beyond_the_noise_is_named() -> None:
    slower = answers(finals(guided=210.0, **USUAL))["never slower than the best baseline beyond the noise"]
    assert slower == ["no", f"1 of 1 jobs: {BERT}", "0"]


def test_the_page_has_all_tables_and_pictures(tmp_path: Path) -> None:
    results = ProofResults.create(tmp_path)
    results.finals.write("one", finals(guided=150.0, **USUAL))
    results.methods.write("one", [method("guided", [0.2, 0.15])])
    text = write_page(tmp_path).read_text(encoding="utf-8")
    assert "1 jobs (a cell with a seed) in 1 of 40 cells." in text
    assert "39 cells have not run yet; the table of gains marks them." in text
    for name in ("gains", "trials"):
        assert f"![{name}]({name}.png)" in text
        assert (tmp_path / "report" / f"{name}.png").stat().st_size > 1000


def test_pictures_have_a_mark_for_each_cell_and_a_curve_for_each_method() -> None:
    outcomes = outcomes_of(finals(guided=150.0, **USUAL), [method("guided", [0.2, 0.15]), method("tpe", [0.2])])
    assert len(gains_picture(by_cell(outcomes)).axes) == 3
    assert len(curves_picture(outcomes).axes[0].lines) == 2


def test_without_finals_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="has no finals yet; run `python -m studies bench proof run` first"):
        write_page(tmp_path)

"""The data card's figures, and its examples for readers."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.errors import DatasetError
from autosync.spec import RuntimeRecord
from studies.collect.card import BEGIN, END, write_card
from studies.collect.folder import Folder
from tests.dataset.examples import example_record, failed_record

CARD = Path(__file__).parents[3] / "runtimes" / "README.md"


def timed(sequence: int, seconds: float, cluster: str = "two_racks", **changes: object) -> RuntimeRecord:
    """The record of trial `sequence` of a cell, at `seconds` a step; the first eleven trials have different
    strategies."""
    record = replace(
        example_record(sequence, run=f"runtimes/mlp@{cluster}"),
        seed=0,
        sequence=sequence,
        step_seconds=(seconds, seconds, seconds),
        load_average=1.5,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def a_collection(folder: Path) -> Folder:
    """A cell with five records, of which two repeat a strategy with 2 % and 8 % difference; a cell with three, one
    failed."""
    store = RecordStore.create(folder / "records")
    for record in (
        timed(0, 0.1),
        timed(1, 0.2),
        timed(2, 0.3),
        timed(11, 0.1 * math.exp(0.02), purpose="remeasure"),
        timed(13, 0.3 * math.exp(-0.08), purpose="remeasure"),
        timed(0, 0.4, "4x1gbit"),
        timed(1, 1.5, "4x1gbit", outcome="stopped", reason="It was slow."),
        replace(failed_record(2), run="runtimes/mlp@4x1gbit", sequence=2, final_loss=None, load_average=1.5),
    ):
        store.append(record)
    shutil.copy(CARD, folder)
    return Folder(folder)


def figures(folder: Folder) -> str:
    write_card(folder)
    return folder.card.read_text().partition(BEGIN)[2].partition(END)[0]


def test_the_card_counts_cells_failures_and_noise(tmp_path: Path) -> None:
    told = figures(a_collection(tmp_path))
    assert "8 records of 6 strategies in 2 cells; 21 timed steps" in told
    assert "| mlp @ two_racks | 5 | 3 | 2 | 0 | 0 | 0 | 100 / 200 / 300 | 5.0% / 8.0% |" in told
    assert "| mlp @ 4x1gbit | 3 | 3 | 0 | 1 | 1 | 0 | 400 / 950 / 1500 | - |" in told
    assert "2 strategies were timed twice, at other times; half of them differ by less than 5.0%" in told
    assert "1 x failed: the loss is nan" in told
    assert "Machine: example (8 records)" in told
    assert "tensorflow 2.20.0" in told
    assert "Load average before a trial: median 1.5" in told


def test_writing_the_card_anew_changes_its_figures_alone(tmp_path: Path) -> None:
    folder = a_collection(tmp_path)
    write_card(folder)
    once = folder.card.read_text()
    write_card(folder)
    assert folder.card.read_text() == once
    before, after = CARD.read_text(), once
    assert after.partition(BEGIN)[0] == before.partition(BEGIN)[0]
    assert after.partition(END)[2] == before.partition(END)[2]


def test_a_card_of_no_records_says_so_and_one_without_marks_is_refused(tmp_path: Path) -> None:
    RecordStore.create(tmp_path / "records")
    shutil.copy(CARD, tmp_path)
    assert "There are no records yet." in figures(Folder(tmp_path))
    (tmp_path / "README.md").write_text("# Mine\n")
    with pytest.raises(DatasetError, match=r"README.md must hold the lines '<!-- figures: .*; add them"):
        write_card(Folder(tmp_path))
    (tmp_path / "README.md").unlink()
    with pytest.raises(DatasetError, match=r"README.md cannot be read: No such file or directory; write one first"):
        write_card(Folder(tmp_path))


def examples() -> list[str]:
    """The card's Python blocks, reading the records of the test."""
    return re.findall(r"```python\n(.*?)```", CARD.read_text(), re.DOTALL)


def printed(example: str, folder: Folder) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(example.replace("runtimes/records", str(folder.records)), {})
    return out.getvalue()


def test_the_card_s_query_with_pandas_finds_the_best_of_every_cell(tmp_path: Path) -> None:
    query, _ = examples()
    told = printed(query, a_collection(tmp_path)).splitlines()
    assert told[0].split() == ["run", "label", "median_seconds", "times", "faster", "than", "the", "best", "baseline"]
    assert [line.split() for line in told[1:]] == [
        ["runtimes/mlp@4x1gbit", "parameter_server", "0.4", "1.0"],
        ["runtimes/mlp@two_racks", "parameter_server", "0.1", "1.0"],
    ]


@pytest.mark.thorough
def test_the_card_s_query_with_ray_data_runs(tmp_path: Path) -> None:
    import ray

    _, query = examples()
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
    try:
        told = printed(query.replace("bert-mini@paced_two_racks", "mlp@two_racks"), a_collection(tmp_path))
    finally:
        ray.shutdown()
    assert "median_seconds" in told
    assert "runtimes/mlp@4x1gbit" in told
    assert "parameter_server" in told

"""Results survive a crash, and damaged lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.evaluation import EvaluationError, Journal
from studies.evaluation.jobs import EvaluationResult, Prediction

FIRST = EvaluationResult("a", "first", 10, 1.5, {"mlp@lab": Prediction(("x", "y"), (-1.0, -2.0), (0.1, 0.2))})
SECOND = EvaluationResult("b", "second", 20, 2.5, {}, candidates_per_second=1000.0)


def written(path: Path) -> Path:
    journal = Journal(path)
    journal.append(FIRST)
    journal.append(SECOND)
    return path


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert Journal(written(tmp_path / "new" / "results.jsonl")).results == {"a": FIRST, "b": SECOND}


def test_a_line_cut_off_by_a_crash_is_dropped_and_can_be_written_again(tmp_path: Path) -> None:
    path = written(tmp_path / "results.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    journal = Journal(path)
    assert journal.results == {"a": FIRST}
    journal.append(SECOND)
    assert Journal(path).results == {"a": FIRST, "b": SECOND}


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"key": "c"}', '{"key": "c", "predictions": {"x": {}}}'])
def test_a_line_that_is_no_result_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "results.jsonl")
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(
        EvaluationError, match=r"results.jsonl must hold one result per line, but line 3 is no result \(.*move the"
    ):
        Journal(path)


def test_a_folder_in_the_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="must be a writable file, but: Is a directory"):
        Journal(tmp_path)

"""The report: a page, its tables as CSV, figures as JSON, and readable pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from autosync.errors import WriteError
from studies.evaluation import EXPERIMENTS, EvaluationFindings, write_report
from studies.evaluation.pictures import (
    ablations_picture,
    accuracy_picture,
    learning_curve_picture,
    scatter_picture,
    unseen_picture,
)
from tests.studies.evaluation.made_up import BUILDERS
from tests.studies.evaluation.test_evaluation import CELLS, SETTINGS, evaluation

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> EvaluationFindings:
    whole = evaluation(tmp_path_factory.mktemp("whole") / "results.jsonl")
    whole.run(EXPERIMENTS, list(BUILDERS), lambda: 0.0, lambda _: None)
    return whole.findings()


@pytest.fixture(scope="module")
def folder(findings: EvaluationFindings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "new"
    write_report(folder, findings, ["mlp@two has too few."])
    return folder


def test_the_page_has_every_table_and_picture_and_what_was_passed_over(folder: Path) -> None:
    page = (folder / "evaluation.md").read_text()
    for title in ("Targets", "Unseen strategies in known cells", "Learning curves", "Speed", "Largest errors"):
        assert f"\n## {title}\n" in page
    for name in ("accuracy", "learning_curve", "unseen", "ablations", "accuracy_by_architecture"):
        assert f"]({name}.svg)" in page
        assert (folder / f"{name}.png").read_bytes().startswith(PNG)
        assert (folder / f"{name}.svg").read_text().startswith("<?xml")
    assert "- mlp@two has too few." in page
    assert "There are no results for this yet." not in page


def test_every_table_is_a_csv_file_with_the_pages_figures(folder: Path) -> None:
    rows = list(csv.reader((folder / "accuracy.csv").open()))
    assert rows[0][:4] == ["simulator", "pairwise", "pairwise near the top", "Kendall tau"]
    assert [row[0] for row in rows[1:]] == ["knowing", "guessing", "*a second trial*", "*perfect knowledge, at most*"]
    assert f"| {' | '.join(rows[1])} |" in (folder / "evaluation.md").read_text()


def test_figures_can_be_read_by_a_program(folder: Path) -> None:
    document = json.loads((folder / "result.json").read_text())
    (score,) = [
        scores
        for scores in document["scores"]
        if (scores["experiment"], scores["simulator"], scores["cells"]) == ("accuracy", "guessing", "all")
    ]
    assert score["seeds"] == 2
    assert score["pairwise"]["low"] < score["pairwise"]["value"] < score["pairwise"]["high"]
    assert document["settings"]["seeds"] == SETTINGS.seeds
    assert {target["what"]: target["met"] for target in document["targets"]}[
        "AR-Topk's cost table by the replay"
    ] is True
    assert document["cells"] == {cell.name: len(cell.measurements) for cell in CELLS}


def test_what_is_not_written_to_a_folder_is_said(tmp_path: Path, findings: EvaluationFindings) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"file cannot be made: File exists; name another\."):
        write_report(tmp_path / "file", findings, [])


def test_pictures_draw_intervals_units_and_the_second_trial(findings: EvaluationFindings) -> None:
    picture = accuracy_picture(findings)
    assert picture is not None
    pairwise, _, mape = picture.axes
    assert (pairwise.get_xlabel(), mape.get_xlabel()) == ("pairwise accuracy", "MAPE (%)")
    assert [label.get_text() for label in pairwise.get_yticklabels()] == ["knowing", "guessing"]
    assert len(pairwise.containers) == 2  # one container per simulator: a point with its interval
    look = findings.second_look()
    assert look is not None
    assert pairwise.lines[-1].get_xdata()[0] == look["pairwise"].value
    assert mape.lines[-1].get_xdata()[0] == 100 * look["mape"].value


def test_curves_have_a_line_a_simulator_over_the_sizes(findings: EvaluationFindings) -> None:
    for picture, panels, sizes in ((learning_curve_picture, 2, ["10", "25"]), (unseen_picture, 3, ["0", "10"])):
        figure = picture(findings)
        assert figure is not None
        assert len(figure.axes) == panels
        for axis in figure.axes:
            assert [label.get_text() for label in axis.get_xticklabels()] == sizes
            assert [container.get_label() for container in axis.containers] == list(BUILDERS)
    assert ablations_picture(findings) is not None


def test_the_scatter_shows_every_test_strategy_once_a_simulator(findings: EvaluationFindings) -> None:
    figure = scatter_picture(findings)
    assert figure is not None
    for axis in figure.axes[: len(BUILDERS)]:
        assert sum(len(collection.get_offsets()) for collection in axis.collections) == sum(
            len(c.part("test")) for c in CELLS
        )
        assert (axis.get_xscale(), axis.get_xlim()) == ("log", axis.get_ylim())
        assert axis.xaxis.get_major_formatter()(200.0, 0) == "200"


def test_without_results_there_are_no_pictures(tmp_path: Path) -> None:
    write_report(tmp_path, EvaluationFindings(CELLS, SETTINGS, BUILDERS, {}), [])
    assert list(tmp_path.glob("*.png")) == []
    assert "There are no results for this yet." in (tmp_path / "evaluation.md").read_text()

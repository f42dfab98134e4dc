"""Results of older simulators are kept, count as not done, and are shown as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.studies.evaluation import BUILDERS as KNOWN
from autosync.studies.evaluation import (
    Builder,
    Evaluation,
    EvaluationSettings,
    Journal,
    Subject,
    measured_cells,
    write_report,
)
from autosync.studies.evaluation.cells import split_of, stored_records
from autosync.studies.evaluation.jobs import UNVERSIONED, jobs_of
from tests.studies.evaluation.made_up import BUILDERS, Guessing, cells

CELLS = cells()
SETTINGS = EvaluationSettings(
    seeds=2, shots=(0, 10), curve=(10, 25), speed_records=20, speed_candidates=50, resamples=50
)
SHIPPED = Path(__file__).parents[3] / "runtimes"


def evaluation(path: Path) -> Evaluation:
    return Evaluation(CELLS, SETTINGS, BUILDERS, Journal(path))


def test_a_simulator_of_another_version_is_fitted_anew_and_until_then_the_older_results_are_shown_as_such(
    tmp_path: Path,
) -> None:
    def of_version(version: int) -> Evaluation:
        guessing = Builder(lambda seed, _ablation: Guessing(seed), random=True, version=version)
        return Evaluation(CELLS, SETTINGS, BUILDERS | {"guessing": guessing}, Journal(tmp_path / "results.jsonl"))

    first, subject = of_version(1), Subject("accuracy", "guessing")
    assert first.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 3
    assert first.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 0
    second = of_version(2)
    assert second.findings().versions == {"knowing": 1, "guessing": 1}
    assert second.findings().seeds(subject) == first.findings().seeds(subject) == SETTINGS.seeds
    page = write_report(tmp_path, second.findings(), []).read_text(encoding="utf-8")
    assert "Results are of version 1: knowing; of version 1: guessing, of which there is version 2 now." in page
    assert second.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 2
    assert second.findings().versions == {"knowing": 1, "guessing": 2}
    assert first.journal.results.keys() < Journal(tmp_path / "results.jsonl").results.keys()


def test_results_of_before_there_were_versions_are_shown_as_such_and_not_taken_for_done(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    whole = evaluation(path)
    whole.run(["accuracy"], ["guessing"], lambda: 0.0, lambda _: None)
    older = {
        job.key: job.key_of(UNVERSIONED)
        for job in jobs_of("accuracy", CELLS, SETTINGS, {"guessing": BUILDERS["guessing"]})
    }
    text = path.read_text()
    for key, unversioned in older.items():
        text = text.replace(key, unversioned)
    path.write_text(text)
    again = evaluation(path)
    assert again.findings().versions["guessing"] == UNVERSIONED
    assert again.findings().seeds(Subject("accuracy", "guessing")) == SETTINGS.seeds
    page = write_report(tmp_path, again.findings(), []).read_text(encoding="utf-8")
    assert "of the time before simulators had versions: guessing, of which there is version 1 now." in page
    assert again.run(["accuracy"], ["guessing"], lambda: 0.0, lambda _: None) == 2


@pytest.mark.thorough
def test_the_results_that_come_with_the_program_are_found_by_their_keys_of_before() -> None:
    found, _ = measured_cells(stored_records(SHIPPED), split_of)
    results = Journal(SHIPPED / "evaluation" / "results.jsonl").results
    jobs = list(jobs_of("accuracy", found, EvaluationSettings(seeds=1), KNOWN))
    assert {job.key_of(UNVERSIONED) for job in jobs} <= results.keys()
    assert not {job.key for job in jobs} & results.keys()

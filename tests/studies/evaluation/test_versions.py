"""Results of older simulators are kept, do not count as done, and are shown with their version."""

from __future__ import annotations

from pathlib import Path

from studies.evaluation import (
    Builder,
    EvaluationSettings,
    Journal,
    PredictionKey,
    SimulatorEvaluation,
    write_report,
)
from tests.studies.evaluation.made_up import BUILDERS, Guessing, cells

CELLS = cells()
SETTINGS = EvaluationSettings(
    seeds=2, shots=(0, 10), curve=(10, 25), speed_records=20, speed_candidates=50, resamples=50
)


def test_a_simulator_of_another_version_is_fitted_anew_and_until_then_the_older_results_are_shown_as_such(
    tmp_path: Path,
) -> None:
    def of_version(version: int) -> SimulatorEvaluation:
        guessing = Builder(lambda seed, _ablation: Guessing(seed), random=True, version=version)
        return SimulatorEvaluation(
            CELLS, SETTINGS, BUILDERS | {"guessing": guessing}, Journal(tmp_path / "results.jsonl")
        )

    first, subject = of_version(1), PredictionKey("accuracy", "guessing")
    assert first.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 3
    assert first.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 0
    second = of_version(2)
    assert second.findings().versions == {"knowing": 1, "guessing": 1}
    assert second.findings().seeds(subject) == first.findings().seeds(subject) == SETTINGS.seeds
    page = write_report(tmp_path, second.findings(), []).read_text(encoding="utf-8")
    assert "Results are of version 1: knowing; of version 1: guessing (the present version is 2)." in page
    assert second.run(["accuracy"], list(BUILDERS), lambda: 0.0, lambda _: None) == 2
    assert second.findings().versions == {"knowing": 1, "guessing": 2}
    assert first.journal.results.keys() < Journal(tmp_path / "results.jsonl").results.keys()

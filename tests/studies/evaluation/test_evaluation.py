"""A whole evaluation on a made-up law, with known scores: jobs run once, and tables have the right values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.cost.replay import Replay
from autosync.spec import RuntimeRecord, Strategy
from autosync.stats.tables import TextTable
from studies.evaluation import BUILDERS as KNOWN
from studies.evaluation import (
    EXPERIMENTS,
    EvaluationFindings,
    EvaluationSettings,
    Journal,
    MeasuredCell,
    PredictionKey,
    SimulatorEvaluation,
    build_cells,
)
from studies.evaluation.answers import TABLES
from studies.evaluation.details import WORST
from studies.evaluation.jobs import jobs_of
from studies.evaluation.simulators import Evaluated
from studies.evaluation.targets import targets
from studies.evaluation.tasks import targets_of
from tests.cost.cases import SLOW_MESSAGES
from tests.studies.evaluation.made_up import BUILDERS, NOISE, Guessing, by_law, cells, part_of, records

CELLS = cells()
OF_REPLAY = build_cells(by_law(Replay(SLOW_MESSAGES), records()), part_of)[0]
"""Cells of a law that a replay can learn, unlike the law of `CELLS`."""
SETTINGS = EvaluationSettings(
    seeds=2, shots=(0, 10), curve=(10, 25), speed_records=20, speed_candidates=50, resamples=50
)


def ticking() -> Iterator[float]:
    """A clock that advances by half a second at each reading."""
    return itertools.count(0.0, 0.5)


def evaluation(path: Path) -> SimulatorEvaluation:
    return SimulatorEvaluation(CELLS, SETTINGS, BUILDERS, Journal(path))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> EvaluationFindings:
    whole = evaluation(tmp_path_factory.mktemp("whole") / "results.jsonl")
    clock = ticking()
    whole.run(EXPERIMENTS, list(BUILDERS), lambda: next(clock), lambda _: None)
    return whole.findings()


def table(findings: EvaluationFindings, name: str) -> TextTable:
    return next(table for table in (make(findings) for make in TABLES) if table.name == name)


def test_the_law_itself_ranks_all_but_right_and_a_guess_half_right(findings: EvaluationFindings) -> None:
    knowing, guessing = (findings.scores(PredictionKey("accuracy", name)) for name in BUILDERS)
    assert knowing is not None
    assert guessing is not None
    assert knowing["pairwise"].value > 0.97
    assert knowing["mape"].value == pytest.approx(NOISE * math.sqrt(2 / math.pi), rel=0.35)
    assert guessing["pairwise"].low < 0.5 < guessing["pairwise"].high
    assert guessing["pairwise"].high - guessing["pairwise"].low > 0.05


def test_a_second_trial_is_as_good_as_measuring_is(findings: EvaluationFindings) -> None:
    look = findings.second_look()
    assert look is not None
    assert look["pairwise"].value > 0.95
    assert look["mape"].value == pytest.approx(2 * NOISE / math.sqrt(math.pi), rel=0.35)


def test_intervals_that_are_too_wide_cover_too_much(findings: EvaluationFindings) -> None:
    guessing = findings.scores(PredictionKey("accuracy", "guessing"))
    knowing = findings.scores(PredictionKey("accuracy", "knowing"))
    assert guessing is not None
    assert knowing is not None
    assert guessing["width"].value == pytest.approx(math.expm1(1.6449))
    assert np.isnan(knowing["coverage"].value)


def test_every_experiment_has_a_score_for_every_size_and_seed(findings: EvaluationFindings) -> None:
    for experiment, sizes in (("unseen-cluster", [0, 10]), ("unseen-both", [0, 10]), ("learning-curve", [10, 25])):
        assert findings.sizes(experiment) == sizes
        for size in sizes:
            subject = PredictionKey(experiment, "guessing", size=size)
            assert findings.seeds(subject) == 2
            assert findings.scores(subject, targets_only=True) is not None
    assert findings.progress()[0] == findings.progress()[1]


def test_zero_shot_is_told_of_all_cells_left_out_and_of_the_target_cells(findings: EvaluationFindings) -> None:
    subject = PredictionKey("unseen-cluster", "guessing", size=0)
    everywhere, targets_only = findings.scores(subject), findings.scores(subject, targets_only=True)
    assert set(findings.predictions(subject)) == {cell.name for cell in CELLS}
    assert everywhere is not None
    assert targets_only is not None
    assert everywhere["mape"].value != targets_only["mape"].value


def test_a_result_is_computed_once_and_kept_before_the_next(tmp_path: Path) -> None:
    path, said = tmp_path / "results.jsonl", list[str]()
    first = evaluation(path)
    clock = ticking()
    assert first.run(["accuracy"], ["guessing"], lambda: next(clock), said.append) == 2
    assert said[0].startswith("1 of 2: accuracy, all cells: guessing, seed 0; fitted ")
    assert said[0].endswith(" in 0.5 s")

    def dying() -> float:
        if len(path.read_text().splitlines()) == 4:
            raise KeyboardInterrupt
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        evaluation(path).run(["accuracy", "learning-curve"], ["guessing"], dying, said.append)
    assert len(path.read_text().splitlines()) == 4
    again = evaluation(path)
    assert again.run(["accuracy", "learning-curve"], ["guessing"], lambda: 0.0, said.append) == 2 + 8 - 4
    assert again.run(["accuracy", "learning-curve"], ["guessing"], lambda: 0.0, said.append) == 0


def test_a_simulator_without_randomness_is_fitted_once_for_all_seeds(tmp_path: Path) -> None:
    once = evaluation(tmp_path / "results.jsonl")
    assert once.run(["accuracy"], ["knowing"], lambda: 0.0, lambda _: None) == 1
    assert once.findings().seeds(PredictionKey("accuracy", "knowing")) == 2


def test_a_simulator_is_fitted_once_for_all_that_it_is_adjusted_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = list[int]()
    monkeypatch.setattr(Guessing, "fit", lambda _, *parts: fitted.append(len(parts[0])))
    done = evaluation(tmp_path / "results.jsonl").run(["unseen-both"], ["guessing"], lambda: 0.0, lambda _: None)
    assert done == 2 * len(fitted) == 2 * 2 * len(targets_of(CELLS)), "zero shots and ten, for two seeds"


@pytest.mark.quick("replay*")
@pytest.mark.parametrize(("name", "law_cells", "known"), [("linear", CELLS, None), ("replay", OF_REPLAY, 3)])
def test_what_is_adjusted_stays_as_it_is_and_errs_less_where_it_was_adjusted(
    name: str, law_cells: Sequence[MeasuredCell], known: int | None
) -> None:
    """The replay is fitted on few records first, because all records would determine its law completely."""
    for target in (cell for cell in law_cells if cell.cluster == "four"):
        fitted = KNOWN[name](0)
        away = [record for cell in law_cells if cell.cluster == "three" for record in cell.trials("train")]
        fitted.fit(away[:known], ())
        tested = [measurement.trials[0] for measurement in target.test_measurements]
        strategies, seconds = (
            [record.strategy for record in tested],
            np.log([record.median_seconds for record in tested]),
        )
        before = errors(fitted, tested[0], strategies, seconds)
        adjusted = fitted.adjust(target.trials("train"))
        np.testing.assert_array_equal(errors(fitted, tested[0], strategies, seconds), before)
        assert errors(adjusted, tested[0], strategies, seconds).mean() < before.mean()


def errors(
    simulator: Evaluated, about: RuntimeRecord, strategies: Sequence[Strategy], log_seconds: np.ndarray
) -> np.ndarray:
    return np.abs(simulator.predict(about.model, about.cluster, strategies)[0] - log_seconds)


def test_more_records_make_results_anew(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    evaluation(path).run(["accuracy"], ["guessing"], lambda: 0.0, lambda _: None)
    more = replace(evaluation(path), cells=cells(repeats=11))
    assert more.findings().scores(PredictionKey("accuracy", "guessing")) is None
    assert more.run(["accuracy"], ["guessing"], lambda: 0.0, lambda _: None) == 2


def test_a_seed_counts_when_all_its_tasks_are_done(tmp_path: Path) -> None:
    half = evaluation(tmp_path / "results.jsonl")
    half.run(["unseen-cluster"], ["guessing"], lambda: 0.0, lambda _: None)
    subject = PredictionKey("unseen-cluster", "guessing", size=0)
    kept = dict(half.findings().results)
    assert half.findings().seeds(subject) == 2
    kept.pop(next(key for key, result in kept.items() if "three, 0 records: guessing, seed 1" in result.label))
    assert EvaluationFindings(CELLS, SETTINGS, BUILDERS, kept).seeds(subject) == 1


def test_what_is_taken_away_is_told_with_the_interval_of_the_difference(findings: EvaluationFindings) -> None:
    rows = {row[:2]: row for row in table(findings, "ablations").rows}
    assert set(rows) == {("knowing", ablation) for ablation in ("shuffled order", "without replay", "without topology")}
    assert rows["knowing", "shuffled order"][4] == "0.000 [0.000, 0.000]"
    assert float(rows["knowing", "without topology"][4].split()[0]) < -0.3


def test_the_worst_are_those_it_errs_most_about(findings: EvaluationFindings) -> None:
    rows = table(findings, "worst").rows
    log_errors = [abs(math.log(float(row[5]))) for row in rows]
    assert len(rows) == min(WORST, sum(len(cell.part("test")) for cell in CELLS))
    assert (np.diff(log_errors) < 0.011).all()  # ratios are written with two digits
    points = findings.points(PredictionKey("accuracy", "knowing"))
    largest = max(abs(point.predicted - math.log(point.measurement.seconds)) for point in points)
    assert log_errors[0] == pytest.approx(largest, abs=0.01)


def test_strategies_are_told_apart_by_architecture(findings: EvaluationFindings) -> None:
    rows = [row for row in table(findings, "accuracy_by_architecture").rows if row[0] == "knowing"]
    assert sum(int(row[2]) for row in rows) == sum(len(cell.part("test")) for cell in CELLS)
    assert len(rows) >= 2


def test_speed_is_seconds_to_fit_and_candidates_a_second(findings: EvaluationFindings) -> None:
    rows = {row[0]: row for row in table(findings, "speed").rows}
    assert rows["guessing"] == ("guessing", "20", "0.50", "100 [100, 100]", "2")


@pytest.mark.thorough
def test_what_a_search_has_is_asked_for_its_speed_alone(tmp_path: Path) -> None:
    drafted = {"drafted linear": KNOWN["drafted linear"]}
    asked = {
        experiment: [job.simulator for job in jobs_of(experiment, CELLS, SETTINGS, drafted)]
        for experiment in EXPERIMENTS
    }
    assert {experiment for experiment, names in asked.items() if names} == {"speed"}
    clock = ticking()
    whole = SimulatorEvaluation(CELLS, SETTINGS, drafted, Journal(tmp_path / "results.jsonl"))
    whole.run(["speed"], list(drafted), lambda: next(clock), lambda _: None)
    (row,) = table(whole.findings(), "speed").rows
    assert row == ("drafted linear", "20", "0.50", "100 [100, 100]", "2")


def test_targets_are_held_against_what_was_found(findings: EvaluationFindings) -> None:
    by_name = {target.what: target for target in targets(findings)}
    assert by_name["pairwise accuracy of knowing, unseen strategies"].met is True
    assert by_name["pairwise accuracy of knowing, the worst cell"].met is True
    assert by_name["MAPE of knowing, unseen strategies"].met is True
    assert by_name["pairwise accuracy of the replay alone"].met is None
    assert by_name["AR-Topk's cost table by the replay"].met is True
    guesses = EvaluationFindings(CELLS, SETTINGS, {"guessing": BUILDERS["guessing"]}, findings.results)
    by_name = {target.what: target for target in targets(guesses)}
    assert by_name["pairwise accuracy of guessing, unseen strategies"].met is False
    worst = by_name["pairwise accuracy of guessing, the worst cell"]
    assert worst.met is False
    by_cell = {row[0]: float(row[1]) for row in table(guesses, "accuracy_by_cell").rows}
    assert float(worst.found.split()[0]) == pytest.approx(min(by_cell.values()), abs=0.1)
    assert by_name["MAPE of guessing, unseen strategies"].met is False


def test_near_the_top_knowing_the_law_is_right_and_guessing_is_not(findings: EvaluationFindings) -> None:
    rows = {row[0]: row for row in table(findings, "near_top").rows}
    assert set(rows) == {cell.name for cell in CELLS}
    for cell in CELLS:
        name, pairs, judged, alone, *_, thumb, everywhere, share_alike, alike = rows[cell.name]
        assert alone == "-", "there is no replay among these simulators"
        by_cell = {row[0]: row for row in table(findings, "accuracy_by_cell").rows}[name]
        assert everywhere == by_cell[1]
        assert int(pairs) <= int(by_cell[-1])
        if int(pairs):
            assert float(judged) > 0.9
        assert float(thumb) < float(everywhere), "architecture alone predicts less than the law"
        assert float(alike) > 0.9
        assert 0 < float(share_alike.rstrip(" %")) < 100


def test_without_repeats_the_targets_say_that_the_noise_is_not_known() -> None:
    alone = EvaluationFindings(cells(repeats=0), SETTINGS, BUILDERS, {})
    pairwise, worst, _, error, *_ = targets(alone)
    assert pairwise.wanted == "at least 0.90"
    assert error.wanted == "at most 3.0 % beyond the noise, which is unknown without repeats"
    assert {pairwise.met, worst.met, error.met} == {None}


def test_before_there_is_any_result_every_table_can_be_made() -> None:
    nothing = EvaluationFindings(CELLS, SETTINGS, BUILDERS, {})
    made = [make(nothing) for make in TABLES]
    empty = {table.name for table in made if not table.rows}
    assert {table.name for table in made} - empty == {"ar_topk", "dataset", "accuracy"}
    assert "There are no results for this yet." in table(nothing, "speed").markdown()

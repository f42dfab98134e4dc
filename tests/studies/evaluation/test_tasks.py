"""Fitted records never include tested strategies, and records are drawn fairly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from studies.evaluation import EXPERIMENTS, EvaluationSettings, missing_data
from studies.evaluation.tasks import Task, targets_of, tasks_of
from tests.studies.evaluation.made_up import cells

CELLS = cells()
SETTINGS = EvaluationSettings(shots=(0, 10), curve=(10, 25))


def tasks(experiment: str, settings: EvaluationSettings = SETTINGS, seed: int = 0) -> list[Task]:
    return list(tasks_of(experiment, CELLS, settings, seed))


def cells_fitted(task: Task) -> set[tuple[str, str]]:
    clusters = {3: "three", 4: "four"}
    return {(record.model.name, clusters[len(record.cluster.nodes)]) for record in (*task.fit, *task.validation)}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_tested_strategy_is_fitted_or_validated_on(experiment: str) -> None:
    for task in tasks(experiment):
        tested = {measurement.digest for cell in task.test for measurement in cell.test_measurements}
        assert len(tested) >= 5
        assert not tested & {record.strategy.digest for record in (*task.fit, *task.shots, *task.validation)}


def test_known_cells_are_fitted_and_tested_all_at_once() -> None:
    (task,) = tasks("accuracy")
    assert task.test == CELLS
    assert cells_fitted(task) == {(cell.model, cell.cluster) for cell in CELLS}
    assert not {record.strategy.digest for record in task.fit} & {record.strategy.digest for record in task.validation}


def test_of_an_unseen_cluster_nothing_is_fitted() -> None:
    left_out = [task for task in tasks("unseen-cluster") if task.size == 0]
    assert [task.target for task in left_out] == ["four", "three"]
    for task in left_out:
        assert {cell.cluster for cell in task.test} == {task.target}
        assert {cluster for _, cluster in cells_fitted(task)} == {"three", "four"} - {task.target}


def test_of_an_unseen_model_nothing_is_fitted() -> None:
    for task in [task for task in tasks("unseen-model") if task.size == 0]:
        assert {cell.model for cell in task.test} == {task.target}
        assert {model for model, _ in cells_fitted(task)} == {"mlp", "ncf-like"} - {task.target}


def test_of_both_unseen_neither_the_model_nor_the_cluster_is_fitted() -> None:
    for task in [task for task in tasks("unseen-both") if task.size == 0]:
        (target,) = task.test
        ((model, cluster),) = cells_fitted(task)
        assert model != target.model
        assert cluster != target.cluster


def test_shots_are_records_of_the_target_cell_for_what_was_fitted_without_any() -> None:
    for experiment in ("unseen-cluster", "unseen-model", "unseen-both"):
        zero_shot = {task.fit_digest for task in tasks(experiment) if task.size == 0}
        for task in [task for task in tasks(experiment) if task.size == 10]:
            (target,) = task.test
            nodes = {"three": 3, "four": 4}[target.cluster]
            shots = {(record.model.name, len(record.cluster.nodes)) for record in task.shots}
            assert (len(task.shots), shots) == (10, {(target.model, nodes)})
            assert task.fit_digest in zero_shot


def test_every_model_and_every_cluster_is_a_target_once() -> None:
    assert Counter(cell.model for cell in targets_of(CELLS)) == {"mlp": 1, "ncf-like": 1}
    assert Counter(cell.cluster for cell in targets_of(CELLS)) == {"three": 1, "four": 1}
    assert len(targets_of(CELLS, most=1)) == 1


def test_a_learning_curve_is_of_one_cell_alone_and_grows_by_adding() -> None:
    by_target: dict[str, list[Task]] = {}
    for task in tasks("learning-curve"):
        by_target.setdefault(task.target, []).append(task)
        assert len(cells_fitted(task)) == 1
        assert len(task.fit) == task.size
    for small, large in by_target.values():
        assert set(map(id, small.fit)) < set(map(id, large.fit))


def test_another_seed_draws_other_records_and_the_same_seed_the_same() -> None:
    first, again, reseeded = (tasks("learning-curve", seed=seed)[0] for seed in (0, 0, 1))
    assert first.data_digest == again.data_digest
    assert first.data_digest != reseeded.data_digest


def test_where_fewer_records_are_fitted_all_cells_have_their_share() -> None:
    (task,) = tasks("accuracy", replace(SETTINGS, most_records=22))
    counts = Counter((record.model.name, len(record.cluster.nodes)) for record in task.fit)
    assert sorted(counts.values()) == [5, 5, 6, 6]
    assert len(task.validation) == 7


def test_what_there_is_not_enough_for_is_said() -> None:
    too_many = replace(SETTINGS, curve=(10, 1000))
    assert any("so 1000 cannot be drawn" in sentence for sentence in missing_data(CELLS, too_many))
    alone = list(missing_data(CELLS[:1], SETTINGS))
    assert alone == [
        "Unseen clusters need records of two clusters or more, but all are of four.",
        "Unseen models need records of two models or more, but all are of mlp.",
    ]
    assert list(tasks_of("unseen-cluster", CELLS[:1], SETTINGS, 0)) == []

"""The findings of all results: predictions by experiment, size, simulator and ablation, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from autosync.numeric import FloatArray
from autosync.pretraining.cells import MeasuredCell, Measurement
from autosync.pretraining.metrics import METRICS, Predictions, second_look
from autosync.stats.estimate import Estimate, estimate_of
from studies.evaluation.jobs import EvaluationJob, EvaluationResult, jobs_of
from studies.evaluation.simulators import Builder
from studies.evaluation.tasks import AS_IT_IS, EXPERIMENTS, EvaluationSettings, targets_of

BySeed = Mapping[str, Sequence[Predictions]]
"""The predictions of each seed, by the name of the cell. All seeds have the same strategies in the same order."""

Scores = Mapping[str, Estimate]
"""Estimates by the names of `METRICS`: the seeds' mean over equally weighted cells, with its resamples."""


def scores_of(by_seed: BySeed, resamples: int, seed: int = 0) -> Scores:
    """Return the score for each of `METRICS`.

    A resample draws, with replacement, seeds (the same for all cells) and strategies within each cell. Cells are not
    drawn, so an interval is valid for these models and clusters only. Predictions of the same cells and seeds get the
    same resamples, so that their differences have intervals too.
    """
    seeds = min(map(len, by_seed.values()))
    drawn_seeds = np.random.default_rng(seed).multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    columns: dict[str, list[FloatArray]] = {name: [] for name in METRICS}
    for cell in sorted(by_seed):
        predictions = by_seed[cell][:seeds]
        count = len(predictions[0].measured)
        positions = np.random.default_rng([seed, *cell.encode()]).integers(count, size=(resamples, count))
        for name, metric in METRICS.items():
            value = np.mean([metric.of(prediction) for prediction in predictions])
            by_draw = np.stack([metric.resample(prediction, positions) for prediction in predictions], axis=1)
            columns[name].append(np.append(value, (drawn_seeds * by_draw).sum(axis=1)))
    return {name: estimate_of(_mean_by_row(by_cell)) for name, by_cell in columns.items()}


def second_looks(cell: MeasuredCell) -> list[Predictions]:
    """Return the cell's second trials as predictions of the first; empty if fewer than two strategies were repeated."""
    first, second = cell.repeats
    return [second_look(first, second, cell.deviation)] if len(first) > 1 else []


def _mean_by_row(columns: Sequence[FloatArray]) -> FloatArray:
    """Return the mean over the cells for which a metric is finite, for each resample."""
    table = np.stack(columns, axis=1)
    known = np.isfinite(table)
    counts = known.sum(axis=1)
    total = np.where(known, table, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, counts, out=np.full(len(table), np.nan), where=counts > 0))


class PredictionKey(NamedTuple):
    """The key of a group of predictions over all seeds and tasks."""

    experiment: str
    simulator: str
    ablation: str = AS_IT_IS
    size: int | None = None


class PredictedPoint(NamedTuple):
    """A tested strategy and its predicted log seconds, mean over seeds."""

    cell: MeasuredCell
    measurement: Measurement
    predicted: float


@final
@dataclass(eq=False)
class EvaluationFindings:
    """The results for `cells`. For each simulator, only results of its latest version that has any results count."""

    cells: Sequence[MeasuredCell]
    settings: EvaluationSettings
    builders: Mapping[str, Builder]
    results: Mapping[str, EvaluationResult]
    """All results, by the keys of their jobs."""
    _jobs: dict[PredictionKey, list[EvaluationJob]] = field(default_factory=dict, init=False)
    _scores: dict[tuple[PredictionKey, bool], Scores | None] = field(default_factory=dict, init=False)
    versions: dict[str, int] = field(default_factory=dict, init=False)
    """The version of each simulator whose results count."""

    def __post_init__(self) -> None:
        for experiment in EXPERIMENTS:
            for job in jobs_of(experiment, self.cells, self.settings, self.builders):
                key = PredictionKey(experiment, job.simulator, job.ablation, job.task.size)
                self._jobs.setdefault(key, []).append(job)
        self.versions = {
            name: self._version_with_results(name, builder.version) for name, builder in self.builders.items()
        }

    @property
    def simulators(self) -> tuple[str, ...]:
        return tuple(self.builders)

    @property
    def targets(self) -> list[MeasuredCell]:
        return targets_of(self.cells, self.settings.most_targets)

    def sizes(self, experiment: str) -> list[int]:
        """Return the sizes that the experiment varies, if there is a cell for the experiment."""
        return sorted({key.size for key in self._jobs if key.experiment == experiment and key.size is not None})

    def progress(self) -> tuple[int, int]:
        """Return the number of different jobs with a result, and the number of all jobs."""
        results = {job.key: self._result(job) for jobs in self._jobs.values() for job in jobs}
        return sum(result is not None for result in results.values()), len(results)

    def scores(self, key: PredictionKey, targets_only: bool = False) -> Scores | None:
        """Return scores over all tested cells, or over the target cells; None until all jobs of one seed are done."""
        request = (key, targets_only)
        if request not in self._scores:
            by_seed = self.predictions(key)
            if targets_only:
                names = {cell.name for cell in self.targets}
                by_seed = {name: predictions for name, predictions in by_seed.items() if name in names}
            self._scores[request] = scores_of(by_seed, self.settings.resamples) if by_seed else None
        return self._scores[request]

    def seeds(self, key: PredictionKey) -> int:
        """Return the number of seeds with complete results."""
        return min((len(by_cell) for by_cell in self.predictions(key).values()), default=0)

    def predictions(self, key: PredictionKey) -> BySeed:
        """Return the predictions of the leading seeds whose tasks are all done; may be empty."""
        by_seed: dict[int, list[EvaluationJob]] = {}
        for job in self._jobs.get(key, []):
            by_seed.setdefault(job.task.seed, []).append(job)
        by_cell: dict[str, list[Predictions]] = {}
        for seed in sorted(by_seed):
            results = [result for job in by_seed[seed] if (result := self._result(job)) is not None]
            if len(results) < len(by_seed[seed]):
                break
            for job, result in zip(by_seed[seed], results, strict=True):
                for cell in job.task.test:
                    by_cell.setdefault(cell.name, []).append(_predictions(cell, result))
        return by_cell

    def second_look(self) -> Scores | None:
        """Return the scores of second trials as predictions of the first, on cells with two or more repeats.

        The result is None if there is no such cell.
        """
        looks = {cell.name: look for cell in self.cells if (look := second_looks(cell))}
        return scores_of(looks, self.settings.resamples) if looks else None

    def points(self, key: PredictionKey) -> list[PredictedPoint]:
        """Return every tested strategy of every cell with its prediction."""
        points = []
        by_name = {cell.name: cell for cell in self.cells}
        for name, by_seed in self.predictions(key).items():
            predicted = np.mean([predictions.predicted for predictions in by_seed], axis=0).tolist()
            tested = by_name[name].test_measurements
            points += [
                PredictedPoint(by_name[name], measurement, log)
                for measurement, log in zip(tested, predicted, strict=True)
            ]
        return points

    def best(self) -> str | None:
        """Return the simulator with the highest pairwise accuracy on known cells, or None without results."""
        scores = {name: self.scores(PredictionKey("accuracy", name)) for name in self.simulators}
        known = {name: estimates["pairwise"].value for name, estimates in scores.items() if estimates is not None}
        return max(known, key=lambda name: known[name]) if known else None

    def speed(self, simulator: str) -> list[EvaluationResult]:
        """Return the results on the simulator's speed."""
        jobs = [job for key, jobs in self._jobs.items() if key.experiment == "speed" for job in jobs]
        results = {job.key: self._result(job) for job in jobs if job.simulator == simulator}
        return [result for result in results.values() if result is not None]

    def _result(self, job: EvaluationJob) -> EvaluationResult | None:
        return self.results.get(job.key_of(self.versions[job.simulator]))

    def _version_with_results(self, simulator: str, version: int) -> int:
        """Return the latest version up to `version` that has a result; `version` if there is no result."""
        jobs = [job for jobs in self._jobs.values() for job in jobs if job.simulator == simulator]
        known = (candidate for candidate in range(version, 0, -1) if any(self._has(job, candidate) for job in jobs))
        return next(known, version)

    def _has(self, job: EvaluationJob, version: int) -> bool:
        return job.key_of(version) in self.results


def _predictions(cell: MeasuredCell, result: EvaluationResult) -> Predictions:
    """Return the predictions in the order of the cell's tested strategies, which is also the result's order."""
    tested, prediction = cell.test_measurements, result.predictions[cell.name]
    assert prediction.strategies == tuple(
        measurement.digest for measurement in tested
    )  # the result's key is computed from these records
    return Predictions(
        np.array(prediction.log_seconds),
        np.log([measurement.seconds for measurement in tested]),
        cell.errors(tested),
        None if prediction.spread is None else np.array(prediction.spread),
    )

"""The findings of all results there are: predictions by experiment, size, simulator and ablation, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.stats.estimate import Estimate, estimate_of
from autosync.studies.evaluation.cells import MeasuredCell, Measurement
from autosync.studies.evaluation.jobs import Job, Result, jobs_of
from autosync.studies.evaluation.metrics import METRICS, Predictions, second_look
from autosync.studies.evaluation.simulators import Builder
from autosync.studies.evaluation.tasks import AS_IT_IS, EXPERIMENTS, EvaluationSettings, targets_of

BySeed = Mapping[str, Sequence[Predictions]]
"""The predictions of each seed for each cell, by name, all of the same strategies in the same order."""

Scores = Mapping[str, Estimate]
"""Estimates by the names of `METRICS`: the seeds' mean over cells, each counting alike, with its resamples."""


def scores_of(by_seed: BySeed, resamples: int, seed: int = 0) -> Scores:
    """Score each of `METRICS`.

    A resample draws seeds, the same for all cells, and strategies within each cell, with replacement. Cells are not
    drawn: an interval speaks about these models and clusters. Predictions of the same cells and seeds are resampled
    alike, so that their differences have intervals too.
    """
    seeds = min(map(len, by_seed.values()))
    drawn_seeds = np.random.default_rng(seed).multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    found: dict[str, list[FloatArray]] = {name: [] for name in METRICS}
    for cell in sorted(by_seed):
        predictions = by_seed[cell][:seeds]
        count = len(predictions[0].measured)
        positions = np.random.default_rng([seed, *cell.encode()]).integers(count, size=(resamples, count))
        for name, metric in METRICS.items():
            value = np.mean([metric.of(each) for each in predictions])
            by_draw = np.stack([metric.resampled(each, positions) for each in predictions], axis=1)
            found[name].append(np.append(value, (drawn_seeds * by_draw).sum(axis=1)))
    return {name: estimate_of(_mean_by_row(columns)) for name, columns in found.items()}


def second_looks(cell: MeasuredCell) -> list[Predictions]:
    """The cell's second trials as predictions of the first; none where fewer than two strategies were repeated."""
    first, second = cell.repeats
    return [second_look(first, second, cell.deviation)] if len(first) > 1 else []


def _mean_by_row(columns: Sequence[FloatArray]) -> FloatArray:
    """The mean of the cells that a metric says something about."""
    table = np.stack(columns, axis=1)
    known = np.isfinite(table)
    counts = known.sum(axis=1)
    total = np.where(known, table, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, counts, out=np.full(len(table), np.nan), where=counts > 0))


FloatArray = npt.NDArray[np.float64]


class Subject(NamedTuple):
    """The key by which predictions are put together, over all seeds and all tasks."""

    experiment: str
    simulator: str
    ablation: str = AS_IT_IS
    size: int | None = None


class PredictedPoint(NamedTuple):
    """A tested strategy, and the log seconds predicted for it, mean over seeds."""

    cell: MeasuredCell
    measurement: Measurement
    predicted: float


@final
@dataclass(eq=False)
class EvaluationFindings:
    """The results of `cells` that are in `results`, by the keys of their jobs: of each simulator, those of one version.

    That is the latest version of which there is any result.
    """

    cells: Sequence[MeasuredCell]
    settings: EvaluationSettings
    builders: Mapping[str, Builder]
    results: Mapping[str, Result]
    _jobs: dict[Subject, list[Job]] = field(default_factory=dict, init=False)
    _scores: dict[tuple[Subject, bool], Scores | None] = field(default_factory=dict, init=False)
    versions: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for experiment in EXPERIMENTS:
            for job in jobs_of(experiment, self.cells, self.settings, self.builders):
                subject = Subject(experiment, job.simulator, job.ablation, job.task.size)
                self._jobs.setdefault(subject, []).append(job)
        self.versions = {name: self._shown(name, builder.version) for name, builder in self.builders.items()}

    @property
    def simulators(self) -> tuple[str, ...]:
        return tuple(self.builders)

    @property
    def targets(self) -> list[MeasuredCell]:
        return targets_of(self.cells, self.settings.most_targets)

    def sizes(self, experiment: str) -> list[int]:
        """The sizes that the experiment varies, where there is any cell for it."""
        return sorted({each.size for each in self._jobs if each.experiment == experiment and each.size is not None})

    def done(self) -> tuple[int, int]:
        """How many different jobs have a result that is shown, and how many there are."""
        found = {job.key: self._result(job) for jobs in self._jobs.values() for job in jobs}
        return sum(result is not None for result in found.values()), len(found)

    def scores(self, subject: Subject, targets_only: bool = False) -> Scores | None:
        """Scores over all tested cells, or the target cells among them; None before all of one seed are done."""
        asked = (subject, targets_only)
        if asked not in self._scores:
            by_seed = self.predictions(subject)
            if targets_only:
                names = {cell.name for cell in self.targets}
                by_seed = {name: each for name, each in by_seed.items() if name in names}
            self._scores[asked] = scores_of(by_seed, self.settings.resamples) if by_seed else None
        return self._scores[asked]

    def seeds(self, subject: Subject) -> int:
        """How many seeds' results are all there."""
        return min((len(each) for each in self.predictions(subject).values()), default=0)

    def predictions(self, subject: Subject) -> BySeed:
        """Predictions of the first seeds of which every task is done; empty when that is none."""
        by_seed: dict[int, list[Job]] = {}
        for job in self._jobs.get(subject, []):
            by_seed.setdefault(job.task.seed, []).append(job)
        found: dict[str, list[Predictions]] = {}
        for seed in sorted(by_seed):
            results = [result for job in by_seed[seed] if (result := self._result(job)) is not None]
            if len(results) < len(by_seed[seed]):
                break
            for job, result in zip(by_seed[seed], results, strict=True):
                for cell in job.task.test:
                    found.setdefault(cell.name, []).append(_predictions(cell, result))
        return found

    def second_look(self) -> Scores | None:
        """Scores of second trials as predictions of the first, on cells with two repeats or more; None without any."""
        looks = {cell.name: look for cell in self.cells if (look := second_looks(cell))}
        return scores_of(looks, self.settings.resamples) if looks else None

    def points(self, subject: Subject) -> list[PredictedPoint]:
        """Every tested strategy of every cell."""
        points = []
        by_name = {cell.name: cell for cell in self.cells}
        for name, by_seed in self.predictions(subject).items():
            predicted = np.mean([each.predicted for each in by_seed], axis=0).tolist()
            tested = by_name[name].tested
            points += [PredictedPoint(by_name[name], each, log) for each, log in zip(tested, predicted, strict=True)]
        return points

    def best(self) -> str | None:
        """The simulator of the highest pairwise accuracy on known cells."""
        found = {name: self.scores(Subject("accuracy", name)) for name in self.simulators}
        known = {name: each["pairwise"].value for name, each in found.items() if each is not None}
        return max(known, key=lambda name: known[name]) if known else None

    def speed(self, simulator: str) -> list[Result]:
        """Results about the simulator's speed."""
        jobs = [job for subject, jobs in self._jobs.items() if subject.experiment == "speed" for job in jobs]
        found = {job.key: self._result(job) for job in jobs if job.simulator == simulator}
        return [result for result in found.values() if result is not None]

    def _result(self, job: Job) -> Result | None:
        return self.results.get(job.key_of(self.versions[job.simulator]))

    def _shown(self, simulator: str, version: int) -> int:
        """The latest version up to `version` that any result is of; `version` when there is none at all."""
        jobs = [job for jobs in self._jobs.values() for job in jobs if job.simulator == simulator]
        known = (each for each in range(version, 0, -1) if any(self._has(job, each) for job in jobs))
        return next(known, version)

    def _has(self, job: Job, version: int) -> bool:
        return job.key_of(version) in self.results


def _predictions(cell: MeasuredCell, result: Result) -> Predictions:
    """Predictions in the order of the cell's tested strategies, which the result's own order is, too."""
    tested, prediction = cell.tested, result.predictions[cell.name]
    assert prediction.strategies == tuple(each.digest for each in tested)  # the result's key is of these records
    return Predictions(
        np.array(prediction.log_seconds),
        np.log([each.seconds for each in tested]),
        cell.errors(tested),
        None if prediction.spread is None else np.array(prediction.spread),
    )

"""The job of fitting and testing one simulator once, its result, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.pretraining.cells import MeasuredCell
from autosync.spec import RuntimeRecord, cut, digest
from autosync.stats.drift import positions_by_family
from studies.evaluation.simulators import Builder, Evaluated
from studies.evaluation.tasks import ABLATIONS, AS_IT_IS, EvaluationSettings, Task, tasks_of

Clock = Callable[[], float]
SPEED = "speed/3"
DIGITS = 6
"""Decimals of kept log seconds: a millionth of a step's time."""
WARM_UP = 100
"""Candidates scored before the clock starts."""
KEPT = 40
"""Fitted simulators to cache: as many as one seed of an experiment fits before adjusting them."""


@dataclass(frozen=True, eq=False)
class EvaluationJob:
    """A task for a simulator. Jobs with the same `key` share a result; without randomness, all seeds share a key."""

    task: Task
    simulator: str
    ablation: str
    random: bool
    """Whether the simulator depends on the seed."""
    version: int
    """The version of the simulator."""

    @cached_property
    def key(self) -> str:
        """The key of the job's result."""
        return self.key_of(self.version)

    def key_of(self, version: int) -> str:
        """Return the key of the job's result for another version of the simulator."""
        kind = SPEED if self.task.experiment == "speed" else "predictions"
        seed = self.task.seed if self.random or kind == SPEED else None
        return digest([kind, self.task.data_digest, self.simulator, self.ablation, seed, f"version {version}"])

    @cached_property
    def fit_key(self) -> str:
        """The key shared by jobs whose simulators are identical before the adjustment."""
        return digest([self.task.fit_digest, self.simulator, self.ablation, self.task.seed if self.random else None])

    @property
    def label(self) -> str:
        size = "" if self.task.size is None else f", {self.task.size} records"
        ablation = "" if self.ablation == AS_IT_IS else f" {self.ablation}"
        return f"{self.task.experiment}, {self.task.target}{size}: {self.simulator}{ablation}, seed {self.task.seed}"


@dataclass(frozen=True)
class Prediction:
    """Predicted log seconds for the strategies with these digests; `spread` is None without standard deviations."""

    strategies: tuple[str, ...]
    log_seconds: tuple[float, ...]
    spread: tuple[float, ...] | None


@dataclass(frozen=True)
class EvaluationResult:
    """The result of a job, as kept on disk."""

    key: str
    label: str
    fit_records: int
    """Number of records that the simulator was fitted and adjusted to."""
    fit_seconds: float
    """Seconds of the fit and the adjustment."""
    predictions: Mapping[str, Prediction]
    """Predictions by the name of the cell; empty for jobs on speed."""
    candidates_per_second: float | None = None
    """Strategies scored per second; None except for jobs on speed."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> EvaluationResult:
        """Return the result in a JSON `document`. Raises `SpecError` if the document is no result."""
        try:
            predictions = {
                name: Prediction(
                    tuple(fields["strategies"]),
                    tuple(fields["log_seconds"]),
                    None if fields["spread"] is None else tuple(fields["spread"]),
                )
                for name, fields in document["predictions"].items()
            }
            return cls(**{**document, "predictions": predictions})
        except (KeyError, TypeError, AttributeError) as error:
            raise SpecError(f"A result needs the fields of this version, but: {cut(repr(error))}.") from None


def jobs_of(
    experiment: str, cells: Sequence[MeasuredCell], settings: EvaluationSettings, builders: Mapping[str, Builder]
) -> Iterator[EvaluationJob]:
    """Yield all jobs of an experiment, seed by seed, so that an interrupted experiment has balanced results."""
    for seed in range(settings.seeds):
        for task in tasks_of(experiment, cells, settings, seed):
            for name, builder in builders.items():
                if experiment in builder.only:
                    yield from (
                        EvaluationJob(task, name, ablation, builder.random, builder.version)
                        for ablation in _ablations(experiment, builder)
                    )


def _ablations(experiment: str, builder: Builder) -> tuple[str, ...]:
    """Return the ablations to evaluate, and the unchanged simulator, whose accuracy results are reused."""
    if experiment != "ablations":
        return (AS_IT_IS,)
    known = tuple(ablation for ablation in ABLATIONS if ablation in builder.ablations)
    return (AS_IT_IS, *known) if known else ()


@final
class Fits:
    """A cache of the simulators fitted last, because many jobs adjust the same simulator."""

    def __init__(self) -> None:
        self._kept: dict[str, Evaluated] = {}

    def of(self, job: EvaluationJob, builder: Builder) -> Evaluated:
        """Return the job's simulator, from the cache or fitted now, and adjusted to the task's shots if there are
        any."""
        fitted = self._kept.pop(job.fit_key, None)
        if fitted is None or job.task.experiment == "speed":
            fitted = builder(job.task.seed, job.ablation)
            fitted.fit(job.task.fit, job.task.validation)
        self._kept[job.fit_key] = fitted  # moves the simulator to the end, so the least recently used is dropped first
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return fitted.adjust(job.task.shots) if job.task.shots else fitted


def run_job(
    job: EvaluationJob, builder: Builder, clock: Clock, settings: EvaluationSettings, fits: Fits
) -> EvaluationResult:
    """Fit the job's simulator and predict the test strategies; `clock` returns seconds."""
    begin = clock()
    simulator = fits.of(job, builder)
    fitted = EvaluationResult(job.key, job.label, len(job.task.fit) + len(job.task.shots), clock() - begin, {})
    if job.task.experiment == "speed":
        known = {record.strategy.digest for record in job.task.fit}
        return replace(
            fitted, candidates_per_second=_candidates_per_second(simulator, job.task.test[0], known, clock, settings)
        )
    return replace(fitted, predictions={cell.name: _predict(simulator, cell) for cell in job.task.test})


def _predict(simulator: Evaluated, cell: MeasuredCell) -> Prediction:
    tested = cell.test_measurements
    log_seconds, spread = _log_seconds(simulator, [measurement.trials[0] for measurement in tested])
    return Prediction(
        tuple(measurement.digest for measurement in tested),
        _round(log_seconds),
        None if spread is None else _round(spread),
    )


def _log_seconds(
    simulator: Evaluated, records: Sequence[RuntimeRecord]
) -> tuple[Sequence[float], Sequence[float] | None]:
    """Return log seconds and deviations, one per record; a cell's clusters may differ slightly in figures and
    addresses."""
    means, spreads = np.empty(len(records)), np.full(len(records), np.nan)
    for (model, cluster), positions in positions_by_family(records).items():
        means[positions], spread = simulator.predict(
            model, cluster, [records[position].strategy for position in positions]
        )
        if spread is not None:
            spreads[positions] = spread
    return means.tolist(), None if np.isnan(spreads).any() else spreads.tolist()


def _candidates_per_second(
    simulator: Evaluated, cell: MeasuredCell, known: Collection[str], clock: Clock, settings: EvaluationSettings
) -> float:
    """Measure the strategies scored per second in one batch of the cell's strategies, repeated as new objects.

    Strategies with digests in `known` are left out, because a search does not predict timed strategies either.
    """
    unknown = [measurement.trials[0] for measurement in cell.measurements if measurement.digest not in known]
    record = unknown[0]
    alike = [candidate for candidate in unknown if candidate.cluster == record.cluster]
    strategies = [replace(alike[index % len(alike)].strategy) for index in range(settings.speed_candidates)]
    # Warm-up, so that work done once per cell is not timed. The batch is large enough to trigger drafting.
    simulator.predict(record.model, record.cluster, strategies[:WARM_UP])
    begin = clock()
    simulator.predict(record.model, record.cluster, strategies)
    return len(strategies) / max(clock() - begin, 1e-9)


def _round(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, DIGITS) for value in values)

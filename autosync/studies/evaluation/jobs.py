"""One simulator fitted and tested once: the job, its result, and carrying it out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.errors import SpecError
from autosync.spec import RuntimeRecord, cut, digest
from autosync.stats.occasions import positions_by_family
from autosync.studies.evaluation.cells import MeasuredCell
from autosync.studies.evaluation.simulators import Builder, Evaluated
from autosync.studies.evaluation.tasks import ABLATIONS, AS_IT_IS, EvaluationSettings, Task, tasks_of

FloatArray = npt.NDArray[np.float64]
Clock = Callable[[], float]
SPEED = "speed/3"
DIGITS = 6
"""Digits of log seconds that are kept: a millionth of a step's time."""
WARM_UP = 100
"""Candidates scored before the clock starts."""
KEPT = 40
"""Fitted simulators that are kept: as many as one seed of an experiment fits before it adjusts them."""


@dataclass(frozen=True, eq=False)
class Job:
    """A task for a simulator. Jobs with one `key` have one result: of a simulator that is not random, for all seeds.

    `version` is the simulator's.
    """

    task: Task
    simulator: str
    ablation: str
    random: bool
    version: int

    @cached_property
    def key(self) -> str:
        return self.key_of(self.version)

    def key_of(self, version: int) -> str:
        """The key of its result by another version of the simulator."""
        kind = SPEED if self.task.experiment == "speed" else "predictions"
        seed = self.task.seed if self.random or kind == SPEED else None
        return digest([kind, self.task.data_digest, self.simulator, self.ablation, seed, f"version {version}"])

    @cached_property
    def fit_key(self) -> str:
        """The key that jobs have in common whose simulators are the same until they are adjusted."""
        return digest([self.task.fit_digest, self.simulator, self.ablation, self.task.seed if self.random else None])

    @property
    def label(self) -> str:
        size = "" if self.task.size is None else f", {self.task.size} records"
        ablation = "" if self.ablation == AS_IT_IS else f" {self.ablation}"
        return f"{self.task.experiment}, {self.task.target}{size}: {self.simulator}{ablation}, seed {self.task.seed}"


@dataclass(frozen=True)
class Prediction:
    """Log seconds predicted for the strategies with these digests, and how sure the simulator is, if it says so."""

    strategies: tuple[str, ...]
    log_seconds: tuple[float, ...]
    spread: tuple[float, ...] | None


@dataclass(frozen=True)
class Result:
    """What came of a job: predictions by the name of their cell, and how long it took.

    `candidates_per_second` is only for jobs about speed, which keep no predictions.
    """

    key: str
    label: str
    fit_records: int
    fit_seconds: float
    predictions: Mapping[str, Prediction]
    candidates_per_second: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Result:
        """The result in a JSON `document`. Raises `SpecError` when it is none."""
        try:
            predictions = {
                name: Prediction(
                    tuple(each["strategies"]),
                    tuple(each["log_seconds"]),
                    None if each["spread"] is None else tuple(each["spread"]),
                )
                for name, each in document["predictions"].items()
            }
            return cls(**{**document, "predictions": predictions})
        except (KeyError, TypeError, AttributeError) as error:
            raise SpecError(f"A result has the fields of this version, but: {cut(repr(error))}.") from None


def jobs_of(
    experiment: str, cells: Sequence[MeasuredCell], settings: EvaluationSettings, builders: Mapping[str, Builder]
) -> Iterator[Job]:
    """Yield all jobs of an experiment, seed by seed, so that what is there when it is interrupted is balanced."""
    for seed in range(settings.seeds):
        for task in tasks_of(experiment, cells, settings, seed):
            for name, builder in builders.items():
                if experiment in builder.only:
                    yield from (
                        Job(task, name, each, builder.random, builder.version)
                        for each in _ablations(experiment, builder)
                    )


def _ablations(experiment: str, builder: Builder) -> tuple[str, ...]:
    """The ablations to evaluate; they are told from the simulator as it is, whose accuracy results are taken."""
    if experiment != "ablations":
        return (AS_IT_IS,)
    known = tuple(each for each in ABLATIONS if each in builder.ablations)
    return (AS_IT_IS, *known) if known else ()


@final
class Fits:
    """The simulators that were fitted last: many jobs adjust the same one."""

    def __init__(self) -> None:
        self._kept: dict[str, Evaluated] = {}

    def of(self, job: Job, builder: Builder) -> Evaluated:
        """The job's simulator, fitted here or before, and adjusted if there is something to adjust it to."""
        fitted = self._kept.pop(job.fit_key, None)
        if fitted is None or job.task.experiment == "speed":
            fitted = builder(job.task.seed, job.ablation)
            fitted.fit(job.task.fit, job.task.validation)
        self._kept[job.fit_key] = fitted  # the last one used comes last
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return fitted.adjusted(job.task.own) if job.task.own else fitted


def carried_out(job: Job, builder: Builder, clock: Clock, settings: EvaluationSettings, fits: Fits) -> Result:
    """Fit the job's simulator, and predict what is tested; `clock` gives seconds."""
    begin = clock()
    simulator = fits.of(job, builder)
    fitted = Result(job.key, job.label, len(job.task.fit) + len(job.task.own), clock() - begin, {})
    if job.task.experiment == "speed":
        known = {each.strategy.digest for each in job.task.fit}
        return replace(fitted, candidates_per_second=_speed(simulator, job.task.test[0], known, clock, settings))
    return replace(fitted, predictions={cell.name: _predicted(simulator, cell) for cell in job.task.test})


def _predicted(simulator: Evaluated, cell: MeasuredCell) -> Prediction:
    tested = cell.tested
    log_seconds, spread = _log_seconds(simulator, [each.trials[0] for each in tested])
    return Prediction(
        tuple(each.digest for each in tested), _rounded(log_seconds), None if spread is None else _rounded(spread)
    )


def _log_seconds(
    simulator: Evaluated, records: Sequence[RuntimeRecord]
) -> tuple[Sequence[float], Sequence[float] | None]:
    """Log seconds and deviations, record by record; a cell's clusters may differ a little in figures and addresses."""
    found, spreads = np.empty(len(records)), np.full(len(records), np.nan)
    for (model, cluster), positions in positions_by_family(records).items():
        found[positions], spread = simulator.predict(model, cluster, [records[each].strategy for each in positions])
        if spread is not None:
            spreads[positions] = spread
    return found.tolist(), None if np.isnan(spreads).any() else spreads.tolist()


def _speed(
    simulator: Evaluated, cell: MeasuredCell, known: Collection[str], clock: Clock, settings: EvaluationSettings
) -> float:
    """Strategies scored a second: one batch of the cell's own, over and over, as new objects each time. None is of
    those `known`, by their digests, which a search does not ask for either.
    """
    strange = [each.trials[0] for each in cell.measurements if each.digest not in known]
    record = strange[0]
    alike = [each for each in strange if each.cluster == record.cluster]
    strategies = [replace(alike[index % len(alike)].strategy) for index in range(settings.speed_candidates)]
    # What is made once for a cell is not counted. These are enough for a simulator that drafts large batches to draft.
    simulator.predict(record.model, record.cluster, strategies[:WARM_UP])
    begin = clock()
    simulator.predict(record.model, record.cluster, strategies)
    return len(strategies) / max(clock() - begin, 1e-9)


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, DIGITS) for value in values)

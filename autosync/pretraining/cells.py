"""Records grouped by cell (a model on a cluster), with the trials of a strategy merged and the noise estimated from
repeats.
"""

import hashlib
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from autosync.cost import drifts_in_cell
from autosync.dataset import RecordStore, records_folder, split_of
from autosync.engine.core.registry import DEFAULT
from autosync.errors import AutosyncError
from autosync.numeric import FloatArray
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.spec.pace_report import split_kind
from autosync.stats.cells import Cell, CellName, records_by_cell, with_noise
from autosync.words.strategy import architecture_of

__all__ = [
    "EvaluationError",
    "MeasuredCell",
    "Measurement",
    "build_cells",
    "choose_kind",
    "folder_of",
    "identity_of",
    "read_records",
    "split_of",
]

LEAST_FIT, LEAST_TEST = 10, 5
"""The least numbers of strategies for fitting and for testing that make a cell worth a row."""


class EvaluationError(AutosyncError, RuntimeError):
    """Simulators cannot be evaluated on these records."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A strategy's trials in a cell."""

    trials: tuple[RuntimeRecord, ...]
    """The trials in order of their start."""
    part: str
    """The strategy's part: train, validation or test."""
    drifts: tuple[float, ...]
    """The machine's drift on each trial's occasion, in log seconds."""

    @property
    def digest(self) -> str:
        return self.trials[0].strategy.digest

    @cached_property
    def architecture(self) -> str:
        return architecture_of(self.trials[0].strategy, self.trials[0].model)

    @cached_property
    def seconds(self) -> float:
        """The median of the trials' medians, without their drifts."""
        return math.exp(statistics.median(self.log_seconds))

    @cached_property
    def log_seconds(self) -> tuple[float, ...]:
        """Log seconds of each trial's median, without its drift."""
        return tuple(math.log(_median(trial)) - drift for trial, drift in zip(self.trials, self.drifts, strict=True))


@final
@dataclass(frozen=True, eq=False)
class MeasuredCell(Cell):
    """A cell to predict: its measurements, ordered by strategy."""

    measurements: tuple[Measurement, ...]

    @property
    def log_seconds(self) -> list[tuple[float, ...]]:
        return [measurement.log_seconds for measurement in self.measurements]

    @property
    def steps(self) -> list[Sequence[float]]:
        return [trial.step_seconds for measurement in self.measurements for trial in measurement.trials]

    @cached_property
    def test_measurements(self) -> tuple[Measurement, ...]:
        return self.part("test")

    def part(self, *parts: str) -> tuple[Measurement, ...]:
        return tuple(measurement for measurement in self.measurements if measurement.part in parts)

    def trials(self, *parts: str) -> list[RuntimeRecord]:
        """Return the trials of these parts' strategies, in order of their start."""
        trials = [trial for measurement in self.part(*parts) for trial in measurement.trials]
        return sorted(trials, key=lambda trial: (trial.started_at, trial.strategy.digest))

    def errors(self, measurements: Sequence[Measurement]) -> FloatArray:
        """Return the standard errors of the measurements' log seconds, (n,)."""
        return np.array([self.deviation / math.sqrt(len(measurement.trials)) for measurement in measurements])


def build_cells(
    records: Iterable[RuntimeRecord], part_of: Callable[[str], str]
) -> tuple[tuple[MeasuredCell, ...], tuple[str, ...]]:
    """Return the cells that are big enough, by name, and a sentence for each skipped cell.

    `part_of` maps a strategy's digest to its part. Raises `EvaluationError` if no cell is left.
    """
    cells = cells_to_teach(records, part_of)
    faults = [_too_small(cell) for cell in cells]
    small = tuple(fault for fault in faults if fault)
    kept = [cell for cell, fault in zip(cells, faults, strict=True) if not fault]
    if not kept:
        raise EvaluationError(f"No cell has enough strategies to be evaluated: {' '.join(small)}")
    return tuple(with_noise(kept)), small


def cells_to_teach(records: Iterable[RuntimeRecord], part_of: Callable[[str], str]) -> tuple[MeasuredCell, ...]:
    """Return all cells, even small ones, by name. Raises `EvaluationError` if there is none."""
    by_cell = records_by_cell(record for record in records if record.timed)
    if not by_cell:
        raise EvaluationError("An evaluation needs records with a step time, but there are none; collect some first.")
    return tuple(with_noise([_cell(name, records, part_of) for name, records in by_cell.items()]))


def identity_of(record: RuntimeRecord) -> str:
    """Return a digest that identifies a trial."""
    about = (record.model.digest, record.cluster.digest, record.strategy.digest, record.run)
    text = f"{about} {record.started_at!r} {record.median_seconds!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _median(trial: RuntimeRecord) -> float:
    assert trial.median_seconds is not None  # callers pass only timed trials
    return trial.median_seconds


def _cell(name: CellName, records: Sequence[RuntimeRecord], part_of: Callable[[str], str]) -> MeasuredCell:
    by_strategy: dict[str, list[RuntimeRecord]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        by_strategy.setdefault(record.strategy.digest, []).append(record)
    # Test trials do not contribute to the drift estimate, so that no prediction is judged by its own measurement.
    counts = [part_of(record.strategy.digest) != "test" for record in records]
    drift_of = dict(zip(map(identity_of, records), drifts_in_cell(records, counts).tolist(), strict=True))
    measurements = [
        Measurement(tuple(trials), part_of(digest), tuple(drift_of[identity_of(trial)] for trial in trials))
        for digest, trials in sorted(by_strategy.items())
    ]
    return MeasuredCell(name.model, name.cluster, math.nan, tuple(measurements))


def _too_small(cell: MeasuredCell) -> str:
    fit, test = len(cell.part("train")), len(cell.part("test"))
    if fit >= LEAST_FIT and test >= LEAST_TEST:
        return ""
    return (
        f"{cell.name} has {fit} strategies to fit and {test} to test, but needs {LEAST_FIT} and {LEAST_TEST}; "
        "collect more records of the cell."
    )


def folder_of(data: Place) -> Place:
    """Return the folder of records that `data` names. Raises `EvaluationError` if it does not exist."""
    folder = records_folder(data)
    if folder is None:
        raise EvaluationError(f"--data needs a folder of records, but there is no folder {data}.")
    return folder


def read_records(data: Place, kind: str | None = None, framework: str | None = None) -> list[RuntimeRecord]:
    """Return the records in the folder `data`, or in `records` within it, that `choose_kind` chooses.

    Raises `EvaluationError` as `choose_kind` does.
    """
    folder = folder_of(data)
    records = RecordStore(folder).read()
    chosen = choose_kind(folder, {record.kind for record in records}, kind, framework)
    return [record for record in records if record.kind == chosen]


def choose_kind(folder: Place, present: Collection[str], kind: str | None, framework: str | None) -> str:
    """Return the only kind of records among those `present` that has the time and numbers of `kind` and the
    `framework`; None leaves either open.

    Raises `EvaluationError` if there is none, or if there are several, because kinds are never compared.
    """
    if not present:
        raise EvaluationError(f"--data needs a folder of records, but {folder} has no record; collect some first.")
    matching = []
    for word in sorted(present):
        of_framework, times = split_kind(word)
        if kind in (None, times) and framework in (None, of_framework or DEFAULT):
            matching.append(word)
    if not matching:
        asked = [f"--kind {kind}"] * (kind is not None) + [f"--framework {framework}"] * (framework is not None)
        raise EvaluationError(
            f"{' '.join(asked)} has no record in {folder}, whose records are {' and '.join(sorted(present))}; choose "
            "one of these."
        )
    if len(matching) > 1:
        frameworks, times_of_all = zip(*map(split_kind, matching), strict=True)
        options = ["--kind"] * (len(set(times_of_all)) > 1) + ["--framework"] * (len(set(frameworks)) > 1)
        raise EvaluationError(
            f"Times of different kinds are never compared, but the records in {folder} are {' and '.join(matching)}; "
            f"choose one with {' and '.join(options)}."
        )
    return matching[0]

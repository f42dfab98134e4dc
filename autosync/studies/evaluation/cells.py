"""Records by cell (a model on a cluster), the trials of a strategy merged, and what repeats tell of the noise."""

import hashlib
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost import drifts_in_cell
from autosync.dataset import RecordStore, records_folder, split_of
from autosync.errors import AutosyncError
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.stats.cells import Cell, CellName, records_by_cell, with_noise
from autosync.words.strategy import architecture_of

__all__ = [
    "EvaluationError",
    "MeasuredCell",
    "Measurement",
    "check_kinds",
    "folder_of",
    "identity_of",
    "measured_cells",
    "split_of",
    "stored_records",
]

FloatArray = npt.NDArray[np.float64]

LEAST_FIT, LEAST_TEST = 10, 5
"""Strategies that a cell needs for fitting and for testing, to be worth a row."""


class EvaluationError(AutosyncError, RuntimeError):
    """Simulators cannot be evaluated on these records."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A strategy's `trials` in a cell, in order of their start, and the part it belongs to: train, validation, test.

    `drifts` are how far, in log seconds, the machine drifted on each trial's occasion.
    """

    trials: tuple[RuntimeRecord, ...]
    part: str
    drifts: tuple[float, ...]

    @property
    def digest(self) -> str:
        return self.trials[0].strategy.digest

    @cached_property
    def architecture(self) -> str:
        return architecture_of(self.trials[0].strategy, self.trials[0].model)

    @cached_property
    def seconds(self) -> float:
        """Median of the trials' medians, less their drifts."""
        return math.exp(statistics.median(self.log_seconds))

    @cached_property
    def log_seconds(self) -> tuple[float, ...]:
        """Log seconds of each trial's median, less its drift."""
        return tuple(math.log(_median(trial)) - drift for trial, drift in zip(self.trials, self.drifts, strict=True))


@final
@dataclass(frozen=True, eq=False)
class MeasuredCell(Cell):
    """A cell to be predicted: its measurements, ordered by strategy."""

    measurements: tuple[Measurement, ...]

    @property
    def log_seconds(self) -> list[tuple[float, ...]]:
        return [each.log_seconds for each in self.measurements]

    @property
    def steps(self) -> list[Sequence[float]]:
        return [trial.step_seconds for each in self.measurements for trial in each.trials]

    @cached_property
    def tested(self) -> tuple[Measurement, ...]:
        return self.part("test")

    def part(self, *parts: str) -> tuple[Measurement, ...]:
        return tuple(each for each in self.measurements if each.part in parts)

    def trials(self, *parts: str) -> list[RuntimeRecord]:
        """The trials of these parts' strategies, in order of their start."""
        found = [trial for each in self.part(*parts) for trial in each.trials]
        return sorted(found, key=lambda trial: (trial.started_at, trial.strategy.digest))

    def errors(self, measurements: Sequence[Measurement]) -> FloatArray:
        """Standard errors of the measurements' log seconds, (n,)."""
        return np.array([self.deviation / math.sqrt(len(each.trials)) for each in measurements])


def measured_cells(
    records: Iterable[RuntimeRecord], part_of: Callable[[str], str]
) -> tuple[tuple[MeasuredCell, ...], tuple[str, ...]]:
    """The cells big enough, by name, and a sentence for each that was passed over.

    `part_of` says a strategy's part by its digest. Raises `EvaluationError` when no cell is left.
    """
    cells = cells_to_teach(records, part_of)
    faults = [_too_small(cell) for cell in cells]
    small = tuple(fault for fault in faults if fault)
    kept = [cell for cell, fault in zip(cells, faults, strict=True) if not fault]
    if not kept:
        raise EvaluationError(f"No cell has enough strategies to be evaluated: {' '.join(small)}")
    return tuple(with_noise(kept)), small


def cells_to_teach(records: Iterable[RuntimeRecord], part_of: Callable[[str], str]) -> tuple[MeasuredCell, ...]:
    """All cells, however small, by name. Raises `EvaluationError` when there is none."""
    by_cell = records_by_cell(record for record in records if record.timed)
    if not by_cell:
        raise EvaluationError("An evaluation needs records with a step time, but there are none; collect some first.")
    return tuple(with_noise([_cell(name, own, part_of) for name, own in by_cell.items()]))


def identity_of(record: RuntimeRecord) -> str:
    """A digest that tells a trial from all others."""
    about = (record.model.digest, record.cluster.digest, record.strategy.digest, record.run)
    text = f"{about} {record.started_at!r} {record.median_seconds!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _median(trial: RuntimeRecord) -> float:
    assert trial.median_seconds is not None  # only timed trials come here
    return trial.median_seconds


def _cell(name: CellName, records: Sequence[RuntimeRecord], part_of: Callable[[str], str]) -> MeasuredCell:
    by_strategy: dict[str, list[RuntimeRecord]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        by_strategy.setdefault(record.strategy.digest, []).append(record)
    # Trials that are tested do not tell how far the machine drifted, so that no prediction is judged by itself.
    tells = [part_of(record.strategy.digest) != "test" for record in records]
    drift_of = dict(zip(map(identity_of, records), drifts_in_cell(records, tells).tolist(), strict=True))
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
        "collect more of it."
    )


def folder_of(data: Place) -> Place:
    """The folder of records that `data` names. Raises `EvaluationError` when there is none."""
    folder = records_folder(data)
    if folder is None:
        raise EvaluationError(f"--data names a folder of records, but there is no folder {data}.")
    return folder


def stored_records(data: Place, kind: str | None = None) -> list[RuntimeRecord]:
    """The records in the folder `data`, or in `records` within it, of `kind` or all of one.

    Raises `EvaluationError` when there are none, or, as these are never compared, of several kinds.
    """
    folder = folder_of(data)
    records = RecordStore(folder).read()
    check_kinds(folder, {each.kind for each in records}, kind)
    return [each for each in records if kind in (None, each.kind)]


def check_kinds(folder: Place, found: Collection[str], kind: str | None) -> None:
    """Raise `EvaluationError` when no records were found, or not of one kind, `kind` if that is given."""
    if not found:
        raise EvaluationError(f"--data names a folder of records, but there are none in {folder}; collect some first.")
    kinds = sorted(found)
    if kind is None and len(kinds) > 1:
        raise EvaluationError(
            f"Times of different kinds are never compared, but the records in {folder} are {' and '.join(kinds)}; name "
            "one by --kind."
        )
    if kind is not None and kind not in kinds:
        raise EvaluationError(f"--kind {kind} has no record in {folder}, whose records are {' and '.join(kinds)}.")

"""Records by cell (a model on a cluster), the trials of a strategy merged, and what repeats tell of the noise."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autosync.cost import drifts_in_cell
from autosync.dataset import RecordStore, split_of
from autosync.errors import AutosyncError
from autosync.spec import ClusterSpec, RuntimeRecord
from autosync.stats.noise import deviation_of_repeats, deviation_of_steps

__all__ = ["Cell", "EvaluationError", "Measurement", "cells_of", "identity_of", "split_of", "stored_records"]

FloatArray = npt.NDArray[np.float64]

LEAST_FIT, LEAST_TEST = 10, 5
"""Strategies that a cell needs for fitting and for testing, to be worth a row."""
ENOUGH_REPEATS = 12
"""The least repeats of a cell for its noise to be known by itself."""


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
    def seconds(self) -> float:
        """Median of the trials' medians, less their drifts."""
        return math.exp(statistics.median(self.log_seconds))

    @cached_property
    def log_seconds(self) -> tuple[float, ...]:
        """Log seconds of each trial's median, less its drift."""
        return tuple(math.log(_median(trial)) - drift for trial, drift in zip(self.trials, self.drifts, strict=True))


@dataclass(frozen=True, eq=False)
class Cell:
    """The measurements of a model on a cluster, ordered by strategy; `deviation` is one trial's, of log seconds."""

    model: str
    cluster: str
    measurements: tuple[Measurement, ...]
    deviation: float

    @property
    def name(self) -> str:
        return f"{self.model}@{self.cluster}"

    @cached_property
    def tested(self) -> tuple[Measurement, ...]:
        return self.part("test")

    def part(self, *parts: str) -> tuple[Measurement, ...]:
        return tuple(each for each in self.measurements if each.part in parts)

    def trials(self, *parts: str) -> list[RuntimeRecord]:
        """The trials of these parts' strategies, in order of their start."""
        found = [trial for each in self.part(*parts) for trial in each.trials]
        return sorted(found, key=lambda trial: (trial.started_at, trial.strategy.digest))

    @property
    def repeats(self) -> tuple[FloatArray, FloatArray]:
        """Log seconds of the first and of the second trial of each strategy timed twice, less drifts, (r,) each."""
        twice = [each.log_seconds for each in self.measurements if len(each.trials) > 1]
        first, second = ([found[which] for found in twice] for which in (0, 1))
        return np.array(first), np.array(second)

    def errors(self, measurements: Sequence[Measurement]) -> FloatArray:
        """Standard errors of the measurements' log seconds, (n,)."""
        return np.array([self.deviation / math.sqrt(len(each.trials)) for each in measurements])


def cells_of(
    records: Iterable[RuntimeRecord], part_of: Callable[[str], str]
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The cells big enough, by name, and a sentence for each that was passed over.

    `part_of` says a strategy's part by its digest. Raises `EvaluationError` when no cell is left.
    """
    by_cell: dict[tuple[str, str], list[RuntimeRecord]] = {}
    for record in records:
        if record.timed:
            by_cell.setdefault((record.model.digest, record.cluster.digest), []).append(record)
    if not by_cell:
        raise EvaluationError("An evaluation needs records with a step time, but there are none; collect some first.")
    models, clusters = _model_names(by_cell), _cluster_names(by_cell)
    cells = [_cell(models[model], clusters[cluster], own, part_of) for (model, cluster), own in sorted(by_cell.items())]
    small = {cell.name: fault for cell in cells if (fault := _too_small(cell))}
    kept = sorted((cell for cell in cells if cell.name not in small), key=lambda cell: cell.name)
    if not kept:
        raise EvaluationError(f"No cell has enough strategies to be evaluated: {' '.join(sorted(small.values()))}")
    return tuple(_with_known_noise(kept)), tuple(small[name] for name in sorted(small))


def identity_of(record: RuntimeRecord) -> str:
    """A digest that tells a trial from all others."""
    about = (record.model.digest, record.cluster.digest, record.strategy.digest, record.run)
    text = f"{about} {record.started_at!r} {record.median_seconds!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _median(trial: RuntimeRecord) -> float:
    assert trial.median_seconds is not None  # only timed trials come here
    return trial.median_seconds


def _cell(model: str, cluster: str, records: Sequence[RuntimeRecord], part_of: Callable[[str], str]) -> Cell:
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
    return Cell(model, cluster, tuple(measurements), math.nan)


def _too_small(cell: Cell) -> str:
    fit, test = len(cell.part("train")), len(cell.part("test"))
    if fit >= LEAST_FIT and test >= LEAST_TEST:
        return ""
    return (
        f"{cell.name} has {fit} strategies to fit and {test} to test, but needs {LEAST_FIT} and {LEAST_TEST}; "
        "collect more of it."
    )


def _with_known_noise(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with their noise: by own repeats; by all cells' where few; by steps within trials where none."""
    ratios = {cell.name: np.subtract(*cell.repeats).tolist() for cell in cells}
    pooled = [ratio for own in ratios.values() for ratio in own]
    found = []
    for cell in cells:
        own = ratios[cell.name] if len(ratios[cell.name]) >= ENOUGH_REPEATS else pooled
        steps = [trial.step_seconds for each in cell.measurements for trial in each.trials]
        found.append(replace(cell, deviation=deviation_of_repeats(own) if own else deviation_of_steps(steps)))
    return found


def _model_names(cells: Mapping[tuple[str, str], list[RuntimeRecord]]) -> dict[str, str]:
    return _different({model: records[0].model.name for (model, _), records in cells.items()})


def _cluster_names(cells: Mapping[tuple[str, str], list[RuntimeRecord]]) -> dict[str, str]:
    """The name by which the collection calls each cluster, else what it is made of."""
    called: dict[str, Counter[str]] = {}
    for (_, cluster), records in cells.items():
        names = called.setdefault(cluster, Counter())
        for record in records:
            _, at, name = record.run.partition("@")
            names[name if at and name else _made_of(record.cluster)] += 1
    return _different({digest: min(names, key=lambda each: (-names[each], each)) for digest, names in called.items()})


def _made_of(cluster: ClusterSpec) -> str:
    nodes, workers = len(cluster.nodes), len(cluster.replica_devices)
    return f"{nodes}-node{'s' * (nodes > 1)}-{workers}-replicas"


def _different(names: Mapping[str, str]) -> dict[str, str]:
    """The names by digest; a name that several share has the digest's beginning added."""
    counts = Counter(names.values())
    return {digest: name if counts[name] == 1 else f"{name}-{digest[:6]}" for digest, name in names.items()}


def stored_records(data: Path) -> list[RuntimeRecord]:
    """The records in the folder `data`, or in `records` within it. Raises `EvaluationError` when there are none."""
    inside = data / "records"
    folder = inside if inside.is_dir() else data
    if not folder.is_dir():
        raise EvaluationError(f"--data names a folder of records, but there is no folder {data}.")
    records = RecordStore(folder).read()
    if not records:
        raise EvaluationError(f"--data names a folder of records, but there are none in {folder}; collect some first.")
    return records

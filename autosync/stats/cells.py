"""Cells (a model on a cluster): their names, their records, and the noise of their trials."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from autosync.numeric import FloatArray
from autosync.spec import RuntimeRecord
from autosync.stats.noise import deviation_of_repeats, deviation_of_steps

BETWEEN = "@"
"""Separates model and cluster in a cell's name and in the `run` of a collection's records."""

ENOUGH_REPEATS = 12
"""The fewest repeats from which a cell's noise is estimated without other cells."""


@dataclass(frozen=True, order=True)
class CellName:
    """The name of a cell: the names of its model and its cluster."""

    model: str
    cluster: str

    def __str__(self) -> str:
        return f"{self.model}{BETWEEN}{self.cluster}"


def cell_of(run: str) -> CellName | None:
    """The cell of a record with this `run`; None if the record belongs to no collection."""
    plan, slash, rest = run.partition("/")
    model, between, cluster = rest.partition(BETWEEN)
    return CellName(model, cluster) if plan and slash and between else None


def records_by_cell(records: Iterable[RuntimeRecord]) -> dict[CellName, list[RuntimeRecord]]:
    """The records of each cell, in order, by cell name in alphabetical order.

    A cluster has its name in the collection, else a name from its composition. If several models or several clusters
    would have the same name, the beginning of the digest is appended.
    """
    by_digests: dict[tuple[str, str], list[RuntimeRecord]] = {}
    called: dict[str, Counter[str]] = {}
    for record in records:
        by_digests.setdefault((record.model.digest, record.cluster.digest), []).append(record)
        called.setdefault(record.cluster.digest, Counter())[_cluster_name(record)] += 1
    models = _different({model: cell_records[0].model.name for (model, _), cell_records in by_digests.items()})
    clusters = _different({key: min(names, key=lambda name: (-names[name], name)) for key, names in called.items()})
    by_name = {
        CellName(models[model], clusters[cluster]): cell_records
        for (model, cluster), cell_records in by_digests.items()
    }
    return dict(sorted(by_name.items(), key=lambda item: str(item[0])))


def _cluster_name(record: RuntimeRecord) -> str:
    _, _, name = record.run.partition(BETWEEN)
    nodes, replicas = len(record.cluster.nodes), len(record.cluster.replica_devices)
    return name or f"{nodes}-node{'s' * (nodes > 1)}-{replicas}-replicas"


def _different(names: Mapping[str, str]) -> dict[str, str]:
    """The names by digest; a name with several digests gets the beginning of the digest appended."""
    counts = Counter(names.values())
    return {digest: name if counts[name] == 1 else f"{name}-{digest[:6]}" for digest, name in names.items()}


@dataclass(frozen=True, eq=False)
class Cell(ABC):
    """Measurements of a model on a cluster; `deviation` is the standard deviation of a trial's log seconds."""

    model: str
    cluster: str
    deviation: float

    @property
    def name(self) -> str:
        return str(CellName(self.model, self.cluster))

    @property
    @abstractmethod
    def log_seconds(self) -> Sequence[Sequence[float]]:
        """For each strategy, log seconds of its trials with a step time, corrected for drift, in order of start."""

    @property
    @abstractmethod
    def steps(self) -> Sequence[Sequence[float]]:
        """The step seconds of every trial."""

    @property
    def repeats(self) -> tuple[FloatArray, FloatArray]:
        """Log seconds of the first and of the second trial of each strategy that was timed twice, (r,) each."""
        twice = [logs for logs in self.log_seconds if len(logs) > 1]
        first, second = ([logs[which] for logs in twice] for which in (0, 1))
        return np.array(first), np.array(second)


_Cell = TypeVar("_Cell", bound=Cell)


def with_noise(cells: Sequence[_Cell]) -> list[_Cell]:
    """The cells with their noise, estimated from a cell's repeats. If the cell has few, all cells' repeats are used; if
    there are none at all, the steps of trials."""
    ratios = [np.subtract(*cell.repeats).tolist() for cell in cells]
    pooled = [ratio for cell_ratios in ratios for ratio in cell_ratios]
    result = []
    for cell, cell_ratios in zip(cells, ratios, strict=True):
        known = cell_ratios if len(cell_ratios) >= ENOUGH_REPEATS else pooled
        result.append(replace(cell, deviation=deviation_of_repeats(known) if known else deviation_of_steps(cell.steps)))
    return result

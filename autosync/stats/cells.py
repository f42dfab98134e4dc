"""Cells: how a model on a cluster is called, which records are of it, and how noisy its trials are."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autosync.spec import RuntimeRecord
from autosync.stats.noise import deviation_of_repeats, deviation_of_steps

Floats = npt.NDArray[np.float64]

BETWEEN = "@"
"""What stands between a cell's model and its cluster, in its name and in the `run` of a collection's records."""

ENOUGH_REPEATS = 12
"""The fewest repeats by which a cell's noise is known from its own trials."""


@dataclass(frozen=True, order=True)
class CellName:
    """A model on a cluster, by their names."""

    model: str
    cluster: str

    def __str__(self) -> str:
        return f"{self.model}{BETWEEN}{self.cluster}"


def cell_of(run: str) -> CellName | None:
    """The cell of a record that holds `run`; None when it is of no collection."""
    plan, slash, rest = run.partition("/")
    model, between, cluster = rest.partition(BETWEEN)
    return CellName(model, cluster) if plan and slash and between else None


def records_by_cell(records: Iterable[RuntimeRecord]) -> dict[CellName, list[RuntimeRecord]]:
    """The records of each cell in their order, by names in order of the alphabet.

    A cluster is called as the collection calls it, else after what it is made of. Of models, or clusters, that would be
    called alike, each has the beginning of its digest added.
    """
    by_digests: dict[tuple[str, str], list[RuntimeRecord]] = {}
    called: dict[str, Counter[str]] = {}
    for record in records:
        by_digests.setdefault((record.model.digest, record.cluster.digest), []).append(record)
        called.setdefault(record.cluster.digest, Counter())[_cluster_name(record)] += 1
    models = _different({model: own[0].model.name for (model, _), own in by_digests.items()})
    clusters = _different({key: min(names, key=lambda each: (-names[each], each)) for key, names in called.items()})
    named = {CellName(models[model], clusters[cluster]): own for (model, cluster), own in by_digests.items()}
    return dict(sorted(named.items(), key=lambda each: str(each[0])))


def _cluster_name(record: RuntimeRecord) -> str:
    _, _, name = record.run.partition(BETWEEN)
    nodes, replicas = len(record.cluster.nodes), len(record.cluster.replica_devices)
    return name or f"{nodes}-node{'s' * (nodes > 1)}-{replicas}-replicas"


def _different(names: Mapping[str, str]) -> dict[str, str]:
    """The names by digest; a name that several share has the digest's beginning added."""
    counts = Counter(names.values())
    return {digest: name if counts[name] == 1 else f"{name}-{digest[:6]}" for digest, name in names.items()}


@dataclass(frozen=True, eq=False)
class Cell(ABC):
    """What was measured of a model on a cluster, called by these names; `deviation` is one trial's, of log seconds."""

    model: str
    cluster: str
    deviation: float

    @property
    def name(self) -> str:
        return str(CellName(self.model, self.cluster))

    @property
    @abstractmethod
    def log_seconds(self) -> Sequence[Sequence[float]]:
        """For each strategy, log seconds of its trials that hold a step time, less drifts, in order of their start."""

    @property
    @abstractmethod
    def steps(self) -> Sequence[Sequence[float]]:
        """The step seconds of every trial."""

    @property
    def repeats(self) -> tuple[Floats, Floats]:
        """Log seconds of the first and of the second trial of each strategy timed twice, (r,) each."""
        twice = [each for each in self.log_seconds if len(each) > 1]
        first, second = ([found[which] for found in twice] for which in (0, 1))
        return np.array(first), np.array(second)


_Cell = TypeVar("_Cell", bound=Cell)


def with_noise(cells: Sequence[_Cell]) -> list[_Cell]:
    """The cells with their noise: by own repeats; where these are few, by all cells'; without any, by trials' steps."""
    ratios = [np.subtract(*cell.repeats).tolist() for cell in cells]
    pooled = [ratio for own in ratios for ratio in own]
    found = []
    for cell, own in zip(cells, ratios, strict=True):
        known = own if len(own) >= ENOUGH_REPEATS else pooled
        found.append(replace(cell, deviation=deviation_of_repeats(known) if known else deviation_of_steps(cell.steps)))
    return found

"""Recorded trials by cell: all that was measured of one model on one cluster."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autosync.cost import drifts_in_cell
from autosync.dataset import RecordStore
from autosync.engine.zoo import default_space
from autosync.errors import DatasetError
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy, digest
from autosync.stats.hits import Yardstick, is_hit, yardstick_of
from autosync.stats.noise import Noise, deviation_of_repeats, deviation_of_steps, noise_of
from search_spaces import load_space

__all__ = ["Cell", "cells_of", "read_cells"]

LEAST_STRATEGIES = 12
"""The fewest timed strategies that a cell needs to be searched."""

ENOUGH_REPEATS = 12
"""The fewest repeats by which a cell's noise is known from its own trials."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell: `trials` hold each strategy by its canonical form, with its records in order of their start.

    Steps are as if the machine had not drifted between occasions: a search would have timed all on one. `deviation` is
    that of log seconds between trials of one strategy. `digest` is of what was measured: what is worked out from it,
    such as drifts, differs in its last digits from processor to processor.
    """

    name: str
    space: SearchSpace
    trials: Mapping[Strategy, tuple[RuntimeRecord, ...]]
    deviation: float
    digest: str

    @cached_property
    def seconds(self) -> Mapping[Strategy, float]:
        """True step seconds of each strategy: the median of its trials' medians; infinite if none was timed."""
        return {strategy: _seconds(trials) for strategy, trials in self.trials.items()}

    @property
    def best_seconds(self) -> float:
        return min(self.seconds.values())

    @cached_property
    def baselines(self) -> tuple[tuple[str, Strategy], ...]:
        """The baselines that were recorded, with their labels, in the order first timed."""
        found = [
            (trial.started_at, trial.label, strategy)
            for strategy, trials in self.trials.items()
            for trial in trials[:1]
            if any(each.purpose == "baseline" for each in trials)
        ]
        return tuple((label, strategy) for _, label, strategy in sorted(found, key=lambda each: each[:2]))

    @cached_property
    def best_baseline(self) -> tuple[str, Strategy]:
        return min(self.baselines, key=lambda each: self.seconds[each[1]])

    @property
    def baseline_seconds(self) -> float:
        return self.seconds[self.best_baseline[1]]

    def is_hit(self, record: RuntimeRecord) -> bool:
        """Whether the trial was faster than the best baseline beyond the noise, by the rule that reports go by."""
        return is_hit(record, self._yardstick, self._noise)

    @cached_property
    def _noise(self) -> Noise:
        records = [each for trials in self.trials.values() for each in trials]
        repeated = [each for trials in self.trials.values() if len(trials) > 1 for each in trials]
        return replace(noise_of(records, repeated), between=self.deviation)

    @cached_property
    def _yardstick(self) -> Yardstick:
        """The best baseline."""
        own = self.trials[self.best_baseline[1]]
        found = yardstick_of(own, own[0].strategy.digest, self._noise)
        assert found is not None, "a cell has a baseline that was timed"
        return found


def read_cells(folder: Path, only: Sequence[str] = ()) -> tuple[list[Cell], list[str]]:
    """The cells in `folder` (or in `records` inside it), and a sentence for each that is too small.

    `only` names the cells wanted; all when empty. Raises `DatasetError`.
    """
    inside = folder / "records"
    store = inside if inside.is_dir() else folder
    if not store.is_dir():
        raise DatasetError(f"Trials are read from a folder of records, but there is no folder {folder}; name another.")
    cells, small = cells_of(RecordStore(store).read())
    known = [cell.name for cell in cells]
    for name in only:
        if name not in known:
            raise DatasetError(f"Cells in {store} are {', '.join(known) or 'none'}; not {name!r}; name one of them.")
    if not cells:
        raise DatasetError(f"No cell in {store} has {LEAST_STRATEGIES} timed strategies; collect more trials.")
    return [cell for cell in cells if not only or cell.name in only], small


def cells_of(records: Iterable[RuntimeRecord]) -> tuple[list[Cell], list[str]]:
    """The cells that are big enough, by name, and a sentence for each that is not."""
    by_cell: dict[tuple[str, str], list[RuntimeRecord]] = {}
    for record in sorted(records, key=lambda record: record.started_at):
        if record.outcome != "lost":
            by_cell.setdefault((record.model.digest, record.cluster.digest), []).append(record)
    names = _names(by_cell)
    cells = [_cell(names[key], own) for key, own in by_cell.items()]
    fault = {cell.name: _fault(cell) for cell in cells}
    kept = [cell for cell in cells if not fault[cell.name]]
    return sorted(_with_noise(kept), key=lambda cell: cell.name), sorted(filter(None, fault.values()))


def _cell(name: str, records: Sequence[RuntimeRecord]) -> Cell:
    model, cluster = records[0].model, records[0].cluster
    space = load_space(default_space(model.name)).bind(model, cluster)
    trials: dict[Strategy, list[RuntimeRecord]] = {}
    for record in _leveled(records):
        trials.setdefault(space.canonical(record.strategy), []).append(record)
    # Ordered by digest: in the order of time, strategies bred from good ones would come last.
    ordered = sorted(trials.items(), key=lambda each: each[0].digest)
    measured = [[each.strategy.digest, each.outcome, each.started_at, *each.step_seconds] for each in records]
    return Cell(name, space, {strategy: tuple(own) for strategy, own in ordered}, math.nan, digest(measured))


def _leveled(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The records with the drift of the machine on their occasion taken out of their steps."""
    drifts = drifts_in_cell(records, [True] * len(records)).tolist()
    return [
        replace(record, step_seconds=tuple(seconds / math.exp(drift) for seconds in record.step_seconds))
        if drift
        else record
        for record, drift in zip(records, drifts, strict=True)
    ]


def _fault(cell: Cell) -> str:
    timed = sum(math.isfinite(seconds) for seconds in cell.seconds.values())
    if timed >= LEAST_STRATEGIES and any(math.isfinite(cell.seconds[each]) for _, each in cell.baselines):
        return ""
    return (
        f"{cell.name} has {timed} timed strategies and {len(cell.baselines)} baselines, but needs {LEAST_STRATEGIES} "
        "and one; collect more of it."
    )


def _seconds(trials: Sequence[RuntimeRecord]) -> float:
    medians = [each.median_seconds for each in trials if each.median_seconds is not None]
    return statistics.median(medians) if medians else math.inf


def _with_noise(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with their noise: by own repeats; where these are few, by all cells'; without any, by trials' steps."""
    ratios = {cell.name: _ratios(cell) for cell in cells}
    pooled = [ratio for own in ratios.values() for ratio in own]
    found = []
    for cell in cells:
        own = ratios[cell.name] if len(ratios[cell.name]) >= ENOUGH_REPEATS else pooled
        steps = [each.step_seconds for trials in cell.trials.values() for each in trials]
        found.append(replace(cell, deviation=deviation_of_repeats(own) if own else deviation_of_steps(steps)))
    return found


def _ratios(cell: Cell) -> list[float]:
    """Log-ratios of the first two trials of each strategy that was timed twice."""
    medians = [
        [each.median_seconds for each in trials if each.median_seconds is not None] for trials in cell.trials.values()
    ]
    return [math.log(each[0] / each[1]) for each in medians if len(each) > 1]


def _names(by_cell: Mapping[tuple[str, str], Sequence[RuntimeRecord]]) -> dict[tuple[str, str], str]:
    """Names MODEL@CLUSTER, as the collection calls cells, else by the number of nodes; equal ones with a digest."""
    plain = {}
    for key, records in by_cell.items():
        _, _, cluster = records[0].run.rpartition("@")
        called = cluster if "@" in records[0].run else f"{len(records[0].cluster.nodes)}-nodes"
        plain[key] = f"{records[0].model.name}@{called}"
    said = list(plain.values())
    return {key: name if said.count(name) == 1 else f"{name}-{key[0][:4]}{key[1][:4]}" for key, name in plain.items()}

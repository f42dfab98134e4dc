"""Recorded trials by cell: all measurements of one model on one cluster."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from autosync.cost import drifts_in_cell
from autosync.dataset import RecordStore, records_folder
from autosync.errors import DatasetError
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy, digest
from autosync.spec.address import Place
from autosync.stats.cells import Cell, CellName, records_by_cell, with_noise
from autosync.stats.hits import Yardstick, is_hit, yardstick_of
from autosync.stats.noise import Noise, noise_of
from autosync.zoo import default_space
from search_spaces import load_space

LEAST_STRATEGIES = 12
"""The fewest timed strategies that a cell needs to be searched."""


@final
@dataclass(frozen=True, eq=False)
class RecordedCell(Cell):
    """A cell to search in. Step times are corrected for the machine's drift between occasions, because a search would
    have timed all strategies on one occasion.
    """

    space: SearchSpace

    trials: Mapping[Strategy, tuple[RuntimeRecord, ...]]
    """By canonical strategy, its records in order of their start."""

    digest: str
    """The digest of the measurements. Derived values such as drifts differ in their last digits between processors."""

    @property
    def kind(self) -> str:
        """The kind of its timings (real or paced); see `RuntimeRecord.kind`."""
        return next(iter(self.trials.values()))[0].kind

    @cached_property
    def seconds(self) -> Mapping[Strategy, float]:
        """True step seconds of each strategy: the median of its trials' medians; infinite if none was timed."""
        return {strategy: statistics.median(_medians(trials) or [math.inf]) for strategy, trials in self.trials.items()}

    @property
    def log_seconds(self) -> list[list[float]]:
        return [[math.log(seconds) for seconds in _medians(trials)] for trials in self.trials.values()]

    @property
    def steps(self) -> list[Sequence[float]]:
        return [trial.step_seconds for trials in self.trials.values() for trial in trials]

    @property
    def best_seconds(self) -> float:
        return min(self.seconds.values())

    @cached_property
    def baselines(self) -> tuple[tuple[str, Strategy], ...]:
        """The baselines that were recorded, with their labels, in the order first timed."""
        recorded = [
            (trial.started_at, trial.label, strategy)
            for strategy, trials in self.trials.items()
            for trial in trials[:1]
            if any(trial.purpose == "baseline" for trial in trials)
        ]
        return tuple((label, strategy) for _, label, strategy in sorted(recorded, key=lambda row: row[:2]))

    @cached_property
    def best_baseline(self) -> tuple[str, Strategy]:
        return min(self.baselines, key=lambda baseline: self.seconds[baseline[1]])

    @property
    def baseline_seconds(self) -> float:
        return self.seconds[self.best_baseline[1]]

    def is_hit(self, record: RuntimeRecord) -> bool:
        """Whether the trial was faster than the best baseline beyond the noise, by the same rule as in reports."""
        return is_hit(record, self._yardstick, self._noise)

    @cached_property
    def _noise(self) -> Noise:
        records = [trial for trials in self.trials.values() for trial in trials]
        repeated = [trial for trials in self.trials.values() if len(trials) > 1 for trial in trials]
        return replace(noise_of(records, repeated), between=self.deviation)

    @cached_property
    def _yardstick(self) -> Yardstick:
        """The best baseline."""
        trials = self.trials[self.best_baseline[1]]
        yardstick = yardstick_of(trials, trials[0].strategy.digest, self._noise)
        assert yardstick is not None, "a cell has a baseline that was timed"
        return yardstick


def read_cells(folder: Place, only: Sequence[str] = ()) -> tuple[list[RecordedCell], list[str]]:
    """The cells in `folder` (or in `records` inside it), and a sentence for each cell that is too small.

    `only` names the wanted cells; empty means all. Raises `DatasetError`.
    """
    store = records_folder(folder)
    if store is None:
        raise DatasetError(f"Trials are read from a folder of records, but there is no folder {folder}; name another.")
    cells, small = cells_of(RecordStore(store).read())
    known = [cell.name for cell in cells]
    for name in only:
        if name not in known:
            raise DatasetError(f"Cells in {store} are {', '.join(known) or 'none'}; not {name!r}; name one of them.")
    if not cells:
        raise DatasetError(f"No cell in {store} has {LEAST_STRATEGIES} timed strategies; collect more trials.")
    return [cell for cell in cells if not only or cell.name in only], small


def cells_of(records: Iterable[RuntimeRecord]) -> tuple[list[RecordedCell], list[str]]:
    """The cells that are large enough, by name, and a sentence for each cell that is too small."""
    ordered = sorted(records, key=lambda record: record.started_at)
    by_cell = records_by_cell(record for record in ordered if record.outcome != "lost")
    cells = [_cell(name, of_cell) for name, of_cell in by_cell.items()]
    faults = [_fault(cell) for cell in cells]
    kept = [cell for cell, fault in zip(cells, faults, strict=True) if not fault]
    return with_noise(kept), [fault for fault in faults if fault]


def _cell(name: CellName, records: Sequence[RuntimeRecord]) -> RecordedCell:
    model, cluster = records[0].model, records[0].cluster
    overlaps = any(record.strategy.overlap_next_forward for record in records)
    rows_apart = any(record.strategy.rows_apart for record in records)
    space = load_space(default_space(model.name)).bind(model, cluster, overlaps, rows_apart)
    trials: dict[Strategy, list[RuntimeRecord]] = {}
    for record in _remove_drift(records):
        trials.setdefault(space.canonical(record.strategy), []).append(record)
    # Ordered by digest, because in order of time, strategies bred from good ones would come last.
    ordered = {strategy: tuple(trials[strategy]) for strategy in sorted(trials, key=lambda strategy: strategy.digest)}
    measured = [[record.strategy.digest, record.outcome, record.started_at, *record.step_seconds] for record in records]
    return RecordedCell(name.model, name.cluster, math.nan, space, ordered, digest(measured))


def _remove_drift(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """Return the records with the machine's drift on their occasion removed from their step times."""
    drifts = drifts_in_cell(records, [True] * len(records)).tolist()
    return [
        replace(record, step_seconds=tuple(seconds / math.exp(drift) for seconds in record.step_seconds))
        if drift
        else record
        for record, drift in zip(records, drifts, strict=True)
    ]


def _fault(cell: RecordedCell) -> str:
    timed = sum(math.isfinite(seconds) for seconds in cell.seconds.values())
    if timed >= LEAST_STRATEGIES and any(math.isfinite(cell.seconds[strategy]) for _, strategy in cell.baselines):
        return ""
    return (
        f"{cell.name} has {timed} timed strategies and {len(cell.baselines)} baselines, but needs {LEAST_STRATEGIES} "
        "and 1; collect more trials of it."
    )


def _medians(trials: Sequence[RuntimeRecord]) -> list[float]:
    return [trial.median_seconds for trial in trials if trial.median_seconds is not None]

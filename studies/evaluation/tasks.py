"""The records that each experiment fits and tests on: splits by strategy, cluster and model."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from autosync.pretraining.cells import MeasuredCell, identity_of
from autosync.spec import RuntimeRecord, digest

EXPERIMENTS = ("accuracy", "unseen-cluster", "unseen-model", "unseen-both", "learning-curve", "ablations", "speed")

AS_IT_IS = "as it is"
ABLATIONS = ("shuffled order", "without replay", "without topology")


@dataclass(frozen=True)
class EvaluationSettings:
    """The size of an evaluation."""

    seeds: int = 5
    shots: tuple[int, ...] = (0, 10, 50)
    """Numbers of records of the unseen cell that a simulator is adjusted to."""
    curve: tuple[int, ...] = (10, 25, 50, 100, 125)
    """Numbers of records of a cell in learning curves."""
    most_records: int | None = None
    """Most records to fit, except in learning curves and shots; None for all."""
    most_targets: int | None = None
    """Most target cells, which shots and learning curves use; None for all."""
    speed_records: int = 200
    """Records to fit in the measurement of speed."""
    speed_candidates: int = 10_000
    """Strategies to score in the measurement of speed."""
    resamples: int = 500
    """Bootstrap resamples."""


def quick() -> EvaluationSettings:
    """Return settings that take minutes instead of hours, and give wide intervals."""
    return EvaluationSettings(
        seeds=2, shots=(0, 10), curve=(10, 50), most_records=150, most_targets=2, speed_candidates=500, resamples=200
    )


Records = tuple[RuntimeRecord, ...]
Cells = Sequence[MeasuredCell]

ALIKE: dict[str, Callable[[MeasuredCell, MeasuredCell], bool]] = {
    "unseen-cluster": lambda cell, left_out: cell.cluster == left_out.cluster,
    "unseen-model": lambda cell, left_out: cell.model == left_out.model,
    "unseen-both": lambda cell, left_out: cell.cluster == left_out.cluster or cell.model == left_out.model,
}
"""For each experiment on unseen cells, whether a cell must not be fitted if another cell is held out."""


@dataclass(frozen=True, eq=False)
class Task:
    """A task: fit a simulator, adjust it to shots if there are any, and test it.

    No tested strategy is used to fit, adjust or validate on any cell, because the parts are split by strategy.
    """

    experiment: str
    target: str
    """The name of the tested cell or group of cells."""
    seed: int
    fit: Records
    """The records to fit."""
    validation: Records
    """The records that decide when to stop fitting."""
    test: tuple[MeasuredCell, ...]
    """The cells whose test strategies are tested."""
    size: int | None = None
    """The number of records that the experiment varies: shots, or a point of a learning curve."""
    shots: Records = ()
    """The records of the tested cell that the fitted simulator is adjusted to."""

    @cached_property
    def data_digest(self) -> str:
        """The digest of all records that the task's result depends on."""
        measurements = [measurement for cell in self.test for measurement in cell.test_measurements]
        tested = tuple(trial for measurement in measurements for trial in measurement.trials)
        return _digest_of(self.fit, self.validation, tested, *filter(None, [self.shots]))

    @cached_property
    def fit_digest(self) -> str:
        """The digest of the records that a simulator is fitted to before the adjustment."""
        return _digest_of(self.fit, self.validation)


def _digest_of(*parts: Records) -> str:
    return digest([[identity_of(record) for record in part] for part in parts])


def tasks_of(experiment: str, cells: Cells, settings: EvaluationSettings, seed: int) -> Iterator[Task]:
    """Return the tasks of one of `EXPERIMENTS`; the seed draws the records if not all are fitted."""
    maker = _TaskMaker(cells, settings, seed)
    if experiment in ALIKE:
        return maker.unseen(experiment)
    if experiment == "learning-curve":
        return maker.learning_curve()
    if experiment == "speed":
        return maker.speed()
    return maker.all_cells(experiment)


def missing_data(cells: Cells, settings: EvaluationSettings) -> Iterator[str]:
    """Yield a sentence for each experiment, or part of one, that lacks cells or records."""
    models, clusters = {cell.model for cell in cells}, {cell.cluster for cell in cells}
    if len(clusters) < 2:
        yield f"Unseen clusters need records of two clusters or more, but all are of {min(clusters)}."
    if len(models) < 2:
        yield f"Unseen models need records of two models or more, but all are of {min(models)}."
    for cell in targets_of(cells, settings.most_targets):
        available = len(cell.trials("train", "validation"))
        short = [str(size) for size in sorted({*settings.shots, *settings.curve}) if size > available]
        if short:
            yield f"{cell.name} has {available} trials outside the test part, so {', '.join(short)} cannot be drawn."


def targets_of(cells: Cells, most: int | None = None) -> list[MeasuredCell]:
    """Return a few cells that include every model and every cluster, preferring cells with many strategies."""
    models, clusters = {cell.model for cell in cells}, {cell.cluster for cell in cells}
    chosen: list[MeasuredCell] = []
    while models or clusters:
        best = min(
            (cell for cell in cells if cell not in chosen),
            key=lambda cell: (-(cell.model in models) - (cell.cluster in clusters), -_count(cell), cell.name),
        )
        chosen.append(best)
        models.discard(best.model)
        clusters.discard(best.cluster)
    return chosen[:most]


def _count(cell: MeasuredCell) -> int:
    return len(cell.measurements)


@final
@dataclass(frozen=True)
class _TaskMaker:
    cells: Cells
    settings: EvaluationSettings
    seed: int

    def all_cells(self, experiment: str) -> Iterator[Task]:
        yield self._task(experiment, "all cells", self.cells, self.cells)

    def unseen(self, experiment: str) -> Iterator[Task]:
        """Yield zero-shot tasks for all held-out cells; then, for each target cell, tasks with shots of that cell."""
        for name, cells in self._left_out(experiment):
            if known := self._cells_to_fit(experiment, cells):
                yield self._task(experiment, name, known, cells, 0)
        for target in self._targets():
            known, available = self._cells_to_fit(experiment, [target]), target.trials("train", "validation")
            for shots in self.settings.shots:
                if known and 0 < shots <= len(available):
                    base = self._task(experiment, target.name, known, [target], shots)
                    yield replace(base, shots=self._draw(available, shots, target.name))

    def learning_curve(self) -> Iterator[Task]:
        """Yield tasks on records of one cell alone, by number of records; larger sets contain the smaller sets."""
        for target in self._targets():
            records = target.trials("train", "validation")
            for size in self.settings.curve:
                if size <= len(records):
                    fit = self._draw(records, size, target.name)
                    yield Task("learning-curve", target.name, self.seed, fit, (), (target,), size)

    def speed(self) -> Iterator[Task]:
        """Yield one task, which fits records of all cells and scores strategies of the largest cell."""
        largest = max(self.cells, key=_count)
        fit = self._evenly("train", self.cells, self.settings.speed_records)
        yield Task("speed", largest.name, self.seed, fit, (), (largest,), len(fit))

    def _targets(self) -> list[MeasuredCell]:
        return targets_of(self.cells, self.settings.most_targets)

    def _left_out(self, experiment: str) -> list[tuple[str, list[MeasuredCell]]]:
        """Return the name and the cells of each held-out cluster, model or target cell."""
        if experiment == "unseen-both":
            return [(target.name, [target]) for target in self._targets()]
        names = {cell: cell.cluster if experiment == "unseen-cluster" else cell.model for cell in self.cells}
        return [(name, [cell for cell in names if names[cell] == name]) for name in sorted({*names.values()})]

    def _cells_to_fit(self, experiment: str, left_out: Cells) -> list[MeasuredCell]:
        return [cell for cell in self.cells if not any(ALIKE[experiment](cell, excluded) for excluded in left_out)]

    def _task(
        self,
        experiment: str,
        target: str,
        known: Cells,
        test: Cells,
        size: int | None = None,
    ) -> Task:
        """Return a task that fits and validates on the train and validation parts of the known cells."""
        most = self.settings.most_records
        fit = self._evenly("train", known, most)
        validation = self._evenly("validation", known, None if most is None else most // 3)
        return Task(experiment, target, self.seed, fit, validation, tuple(test), size)

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} {purpose}")

    def _draw(self, records: Sequence[RuntimeRecord], count: int, purpose: str) -> Records:
        return tuple(self._rng(purpose).sample(list(records), len(records))[:count])

    def _evenly(self, part: str, cells: Cells, most: int | None) -> Records:
        """Return the records of a part, or `most` of them, drawn from the cells in rotation."""
        by_cell = [cell.trials(part) for cell in cells]
        if most is None or sum(map(len, by_cell)) <= most:
            return tuple(record for records in by_cell for record in records)
        rng = self._rng(part)
        piles = [rng.sample(records, len(records)) for records in by_cell]
        chosen: list[RuntimeRecord] = []
        while len(chosen) < most:
            for pile in piles:
                if pile and len(chosen) < most:
                    chosen.append(pile.pop())
        return tuple(chosen)

"""The records that each experiment fits on and tests: splits by strategy, cluster and model."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from autosync.spec import RuntimeRecord, digest
from autosync.studies.evaluation.cells import MeasuredCell, identity_of

EXPERIMENTS = ("accuracy", "unseen-cluster", "unseen-model", "unseen-both", "learning-curve", "ablations", "speed")

AS_IT_IS = "as it is"
ABLATIONS = ("shuffled order", "without replay", "without topology")


@dataclass(frozen=True)
class EvaluationSettings:
    """How much an evaluation does.

    `shots` are records of the unseen cell that a simulator is adjusted to; `curve` the records of a cell that are
    fitted alone; `most_records` bounds what is fitted elsewhere, None is all; `most_targets` the cells that shots and
    curves are about; `resamples` the bootstrap's.
    """

    seeds: int = 5
    shots: tuple[int, ...] = (0, 10, 50)
    curve: tuple[int, ...] = (10, 25, 50, 100, 125)
    most_records: int | None = None
    most_targets: int | None = None
    speed_records: int = 200
    speed_candidates: int = 10_000
    resamples: int = 500


def quick() -> EvaluationSettings:
    """Settings that take minutes in place of hours, with intervals as wide as that makes them."""
    return EvaluationSettings(
        seeds=2, shots=(0, 10), curve=(10, 50), most_records=150, most_targets=2, speed_candidates=500, resamples=200
    )


Records = tuple[RuntimeRecord, ...]
Cells = Sequence[MeasuredCell]

ALIKE: dict[str, Callable[[MeasuredCell, MeasuredCell], bool]] = {
    "unseen-cluster": lambda cell, other: cell.cluster == other.cluster,
    "unseen-model": lambda cell, other: cell.model == other.model,
    "unseen-both": lambda cell, other: cell.cluster == other.cluster or cell.model == other.model,
}
"""The cells that tell too much of each other, for each experiment on the unseen."""


@dataclass(frozen=True, eq=False)
class Task:
    """Fit on `fit`, choose when to stop on `validation`, test on the test strategies of the cells in `test`.

    In between it is adjusted to `own`, if there are any: shots of the cell that is tested. No strategy that is tested
    is fitted, adjusted to or validated on, on any cell: parts are by strategy. `size` counts the records that the
    experiment varies: shots, or points of a learning curve.
    """

    experiment: str
    target: str
    seed: int
    fit: Records
    validation: Records
    test: tuple[MeasuredCell, ...]
    size: int | None = None
    own: Records = ()

    @cached_property
    def data_digest(self) -> str:
        """The digest of all records that the task's result follows from."""
        tested = tuple(trial for cell in self.test for each in cell.tested for trial in each.trials)
        return _digest_of(self.fit, self.validation, tested, *filter(None, [self.own]))

    @cached_property
    def fit_digest(self) -> str:
        """The digest of the records that a simulator is fitted on before it is adjusted."""
        return _digest_of(self.fit, self.validation)


def _digest_of(*parts: Records) -> str:
    return digest([[identity_of(record) for record in part] for part in parts])


def tasks_of(experiment: str, cells: Cells, settings: EvaluationSettings, seed: int) -> Iterator[Task]:
    """The tasks of one of `EXPERIMENTS` for a seed, which draws the records where not all are fitted."""
    making = _Making(cells, settings, seed)
    if experiment in ALIKE:
        return making.unseen(experiment)
    if experiment == "learning-curve":
        return making.learning_curve()
    if experiment == "speed":
        return making.speed()
    return making.all_cells(experiment)


def passed_over(cells: Cells, settings: EvaluationSettings) -> Iterator[str]:
    """A sentence for each experiment, or part of one, that there are not the cells or records for."""
    models, clusters = {cell.model for cell in cells}, {cell.cluster for cell in cells}
    if len(clusters) < 2:
        yield f"Unseen clusters need records of two clusters or more, but all are of {min(clusters)}."
    if len(models) < 2:
        yield f"Unseen models need records of two models or more, but all are of {min(models)}."
    for cell in targets_of(cells, settings.most_targets):
        there = len(cell.trials("train", "validation"))
        short = [str(size) for size in sorted({*settings.shots, *settings.curve}) if size > there]
        if short:
            yield f"{cell.name} has {there} trials that are not for testing, so {', '.join(short)} cannot be drawn."


def targets_of(cells: Cells, most: int | None = None) -> list[MeasuredCell]:
    """A few cells in which every model and every cluster comes at least once: the biggest first."""
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
class _Making:
    cells: Cells
    settings: EvaluationSettings
    seed: int

    def all_cells(self, experiment: str) -> Iterator[Task]:
        yield self._task(experiment, "all cells", self.cells, self.cells)

    def unseen(self, experiment: str) -> Iterator[Task]:
        """Tasks fitted on nothing of what is left out; then, for each target cell, some adjusted to records of it."""
        for name, own in self._left_out(experiment):
            if known := self._known(experiment, own):
                yield self._task(experiment, name, known, own, 0)
        for target in self._targets():
            known, own_trials = self._known(experiment, [target]), target.trials("train", "validation")
            for shots in self.settings.shots:
                if known and 0 < shots <= len(own_trials):
                    base = self._task(experiment, target.name, known, [target], shots)
                    yield replace(base, own=self._drawn(own_trials, shots, target.name))

    def learning_curve(self) -> Iterator[Task]:
        """Tasks of one cell alone, on as many records as a search has timed by then; larger ones hold the smaller."""
        for target in self._targets():
            own = target.trials("train", "validation")
            for size in self.settings.curve:
                if size <= len(own):
                    fit = self._drawn(own, size, target.name)
                    yield Task("learning-curve", target.name, self.seed, fit, (), (target,), size)

    def speed(self) -> Iterator[Task]:
        """A task that fits so many records of all cells, and scores strategies of the largest."""
        largest = max(self.cells, key=_count)
        fit = self._evenly("train", self.cells, self.settings.speed_records)
        yield Task("speed", largest.name, self.seed, fit, (), (largest,), len(fit))

    def _targets(self) -> list[MeasuredCell]:
        return targets_of(self.cells, self.settings.most_targets)

    def _left_out(self, experiment: str) -> list[tuple[str, list[MeasuredCell]]]:
        """The name and the cells of each cluster, of each model, or of each target cell."""
        if experiment == "unseen-both":
            return [(target.name, [target]) for target in self._targets()]
        names = {cell: cell.cluster if experiment == "unseen-cluster" else cell.model for cell in self.cells}
        return [(name, [cell for cell in names if names[cell] == name]) for name in sorted({*names.values()})]

    def _known(self, experiment: str, left_out: Cells) -> list[MeasuredCell]:
        return [cell for cell in self.cells if not any(ALIKE[experiment](cell, other) for other in left_out)]

    def _task(
        self,
        experiment: str,
        target: str,
        known: Cells,
        test: Cells,
        size: int | None = None,
    ) -> Task:
        """A task that fits and validates on the known cells' own parts."""
        most = self.settings.most_records
        fit = self._evenly("train", known, most)
        validation = self._evenly("validation", known, None if most is None else most // 3)
        return Task(experiment, target, self.seed, fit, validation, tuple(test), size)

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed} {purpose}")

    def _drawn(self, records: Sequence[RuntimeRecord], count: int, purpose: str) -> Records:
        return tuple(self._rng(purpose).sample(list(records), len(records))[:count])

    def _evenly(self, part: str, cells: Cells, most: int | None) -> Records:
        """The records of a part, or `most` of them, drawn from the cells in turns."""
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

"""Runs experiments: makes the missing results, and reads the to_record rows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autosync.dataset import ResultStore
from autosync.errors import BenchError
from autosync.spec import shorten_list
from studies.literature import (
    batches,
    compression,
    confirmed,
    cutoffs,
    formulas,
    links,
    meetings,
    progress,
    regions,
    streams,
    workers,
)
from studies.literature.experiment import Experiment
from studies.literature.rows import COLUMNS, FigureRows, to_record

EXPERIMENTS = {
    experiment.name: experiment
    for room in (
        formulas,
        cutoffs,
        batches,
        streams,
        progress,
        meetings,
        compression,
        workers,
        regions,
        links,
        confirmed,
    )
    for experiment in room.EXPERIMENTS
}


def select(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments of these names, or all. Raises `BenchError` for an unknown name."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise BenchError(f"NAMES needs experiments among {shorten_list(list(EXPERIMENTS))}, but has {unknown[0]!r}.")
    return tuple(EXPERIMENTS[name] for name in names) or tuple(EXPERIMENTS.values())


def run(experiments: Sequence[Experiment], seeds: int, out: Path, say: Callable[[str], None]) -> None:
    """Make the results that are not to_record in `out` yet. After an interruption, the same call resumes."""
    store = ResultStore.create(out / "literature", COLUMNS)
    for experiment in experiments:
        works = list(experiment.works(seeds))
        for number, work in enumerate(works):
            key = re.sub("[ ./]", "-", f"{experiment.name}-{experiment.version}-{work.key}")
            if key in store:
                continue
            begin = time.monotonic()
            rows = work.make()
            store.write(key, [to_record(row, experiment.name, experiment.version) for row in rows])
            say(f"{experiment.name} {number + 1}/{len(works)}: {work.key}, {time.monotonic() - begin:.0f} s")


def rows_of(experiment: Experiment, out: Path) -> FigureRows:
    """Return all rows of the experiment's present version."""
    present = experiment.name, experiment.version
    return FigureRows.of(
        row for row in ResultStore(out / "literature", COLUMNS).read() if (row["experiment"], row["version"]) == present
    )

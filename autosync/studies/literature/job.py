"""Experiments at work: what is not kept yet is done, and the page is made of all that is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autosync.dataset import ResultStore
from autosync.errors import BenchError
from autosync.spec import listed
from autosync.studies.literature import (
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
from autosync.studies.literature.experiment import Experiment
from autosync.studies.literature.rows import COLUMNS, Rows, kept

EXPERIMENTS = {
    each.name: each
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
    for each in room.EXPERIMENTS
}


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments of these names, or all. Raises `BenchError` for one that there is not."""
    strange = [name for name in names if name not in EXPERIMENTS]
    if strange:
        raise BenchError(f"There is no experiment {strange[0]!r}; there are {listed(list(EXPERIMENTS))}.")
    return tuple(EXPERIMENTS[name] for name in names) or tuple(EXPERIMENTS.values())


def run(experiments: Sequence[Experiment], seeds: int, out: Path, say: Callable[[str], None]) -> None:
    """Do what is not kept in `out` yet. Stopped at any moment, the same call goes on."""
    store = ResultStore.create(out / "literature", COLUMNS)
    for experiment in experiments:
        works = list(experiment.works(seeds))
        for number, work in enumerate(works):
            key = re.sub("[ ./]", "-", f"{experiment.name}-{experiment.version}-{work.key}")
            if key in store:
                continue
            begin = time.monotonic()
            rows = work.make()
            store.write(key, [kept(row, experiment.name, experiment.version) for row in rows])
            say(f"{experiment.name} {number + 1}/{len(works)}: {work.key}, {time.monotonic() - begin:.0f} s")


def rows_of(experiment: Experiment, out: Path) -> Rows:
    """All rows of the experiment as it is now."""
    own = experiment.name, experiment.version
    return Rows.of(
        row for row in ResultStore(out / "literature", COLUMNS).read() if (row["experiment"], row["version"]) == own
    )

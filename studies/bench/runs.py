"""Runs the commands of `python -m studies bench` once their options are checked: replays, live searches, merging."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from autosync.dataset import ResultStore
from autosync.errors import BenchError
from autosync.spec import digest
from autosync.spec.address import Place
from autosync.tune.recorded.cells import RecordedCell, read_cells
from studies.bench.columns import CELLS, LIVE, SEARCHES, facts_of
from studies.bench.contenders import CONTENDERS, TRANSFERRING
from studies.bench.live import LiveJob, row_of, run_command, run_live
from studies.bench.replaying import SEEDS_A_JOB, Replaying, SearchJob, checkpoint_of, others_than, strange_to
from studies.bench.versions import FACTS, of_live, source_digest
from studies.literature.rows import COLUMNS as LITERATURE
from trials.cluster.file import cluster_to_emulate

Say = Callable[[str], None]

ALL_MEMBERS = 5
"""Members of the ensemble, as in a search."""


@final
@dataclass(frozen=True)
class ReplayOrder:
    """A request for replays: `searchers` on `cells`, with `seeds` seeds from 0 on."""

    data: Place
    """Folder of the records."""
    out: Path
    """Folder of the results."""
    searchers: Sequence[str]
    cells: Sequence[str]
    """Names of cells; empty for all."""
    seeds: int
    trials: int
    """Trials of each search."""
    baselines: bool
    """Whether the searcher gets the baselines."""
    drawn: bool
    """Whether the noise is drawn for each seed, rather than taken from the records."""
    processes: int
    """Processes that run in parallel."""


def replay(order: ReplayOrder, say: Say) -> None:
    """Run the searches that have no result yet. Raises `BenchError`."""
    for name in order.searchers:
        if name not in CONTENDERS:
            raise BenchError(f"--searchers needs names among {', '.join(CONTENDERS)}, but has {name!r}.")
    cells, small = read_cells(order.data, order.cells)
    for sentence in small:
        say(f"Skipped: {sentence}")
    _write_facts(cells, order.out, say)
    store = ResultStore.create(order.out / ("drawn" if order.drawn else "searches"), SEARCHES)
    taught_on = _taught_on(order) if TRANSFERRING.intersection(order.searchers) else {}
    jobs = [job for job in _jobs(order, cells, taught_on) if job.key not in store]
    code = source_digest()
    begin, done = time.monotonic(), 0
    for job, rows in Replaying(order.data, order.out / "checkpoints").run(jobs, order.processes):
        store.write(job.key, [row | {"code": code} for row in rows])
        done += 1
        rate = 60 * done * SEEDS_A_JOB / (time.monotonic() - begin)
        say(f"{done} of {len(jobs)}: {job}; {rate:.0f} searches a minute")
    say(f"{done * SEEDS_A_JOB} searches are new.")


def live(
    jobs: Sequence[LiveJob], data: Place, out: Path, say: Say, run: Callable[[Sequence[str]], int] = run_command
) -> bool:
    """Run the live searches that have no result yet, one after the other; return whether all succeeded.

    The simulator of a guided search is first pretrained on the cells in `data` that share neither its model nor its
    cluster and whose times are of the same kind. Raises `KeyboardInterrupt` if a search was interrupted.
    """
    store = ResultStore.create(out / "live", LIVE)
    recorded, _ = read_cells(data) if any(job.may_be_taught for job in jobs) else ([], [])
    code, failed = source_digest(), 0
    for number, job in enumerate(jobs, 1):
        teachers = _teachers_of(job, recorded) if job.may_be_taught else []
        if teachers:
            job = replace(job, taught_on=digest([cell.digest for cell in teachers]))
        if job.key in store:
            continue
        say(f"{number} of {len(jobs)}: {job}")
        checkpoint = checkpoint_of(teachers, out / "checkpoints", ALL_MEMBERS, None) if teachers else None
        status = run_live(job, out, checkpoint, run)
        if status == 0:
            store.write(job.key, [row_of(job, out) | {"code": code, "version": of_live(job.searcher)}])
        else:
            say(f"The search ended with status {status}; the other searches continue.")
            failed += 1
    say(f"{len(jobs) - failed} of {len(jobs)} searches have a result.")
    return not failed


def _teachers_of(job: LiveJob, recorded: Sequence[RecordedCell]) -> list[RecordedCell]:
    strange = strange_to(recorded, job.cell.model, job.cell.cluster_name)
    kind = cluster_to_emulate(job.cell.cluster).kind if strange else ""
    return [cell for cell in strange if cell.kind == kind]


def merge(out: Path, say: Say) -> None:
    """Merge all results of each kind into one file."""
    for kind, columns in (
        ("cells", CELLS),
        ("searches", SEARCHES),
        ("drawn", SEARCHES),
        ("live", LIVE),
        ("literature", LITERATURE),
    ):
        if count := ResultStore(out / kind, columns).merge():
            say(f"{out / kind}: merged {count} files into one.")


def _write_facts(cells: Sequence[RecordedCell], out: Path, say: Say) -> None:
    store = ResultStore.create(out / "cells", CELLS)
    for cell in cells:
        key = digest([cell.digest, FACTS])
        if key not in store:
            store.write(key, [facts_of(cell) | {"version": FACTS}])
        say(f"{cell.name}: {len(cell.trials)} strategies, {cell.baseline_seconds / cell.best_seconds:.2f} x to gain")


def _taught_on(order: ReplayOrder) -> dict[str, str]:
    """Return, for each cell, the digest of the cells that the simulator of its searches is pretrained on."""
    cells, _ = read_cells(order.data)
    return {cell.name: digest([teacher.digest for teacher in others_than(cell, cells)]) for cell in cells}


def _jobs(order: ReplayOrder, cells: Sequence[RecordedCell], taught_on: Mapping[str, str]) -> list[SearchJob]:
    """Return the jobs in order of their seeds, so that an interrupted replay has equally many of each cell and
    searcher."""
    return [
        SearchJob(
            cell.name,
            cell.digest,
            searcher,
            order.baselines,
            order.trials,
            first_seed,
            taught_on[cell.name] if searcher in TRANSFERRING else "",
            order.drawn,
        )
        for first_seed in range(0, order.seeds, SEEDS_A_JOB)
        for cell in cells
        for searcher in order.searchers
    ]

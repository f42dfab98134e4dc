"""Searches on recorded cells: a block of seeds of one searcher on one cell is a job, and jobs run in processes."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast, final

from autosync.cost import Blended
from autosync.errors import BenchError
from autosync.files import inner_folder
from autosync.search.protocol import run_search
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, digest
from autosync.spec.address import Place
from autosync.studies.bench.contenders import (
    CONTENDERS,
    MEMBERS,
    NETWORK,
    TRANSFERRING,
    Beginning,
    PriorKnowledge,
    untaught,
)
from autosync.studies.bench.ideal import drawn_cell
from autosync.studies.bench.pooled_simulator import Memory
from autosync.studies.bench.versions import TAUGHT, of_replay
from autosync.tune.recorded.cells import RecordedCell, read_cells
from autosync.tune.recorded.pool import PoolSpace, RecordedTable
from trials.guard import guarded

MOST_RECORDS = 400
"""The most records that a simulator is taught on for a replay; evenly taken from all cells when there are more."""


def checkpoint_of(
    cells: Sequence[RecordedCell], folder: Path, members: int = MEMBERS, most_records: int | None = MOST_RECORDS
) -> Path:
    """A checkpoint of `NETWORK`, an ensemble of `members`, taught on `most_records` of `cells`, or all when None; made
    once and kept in `folder`.
    """
    from autosync.simulator import CHECKPOINTS  # torch is imported only where it is asked for

    taught_on = sorted(cell.digest for cell in cells)
    name = digest([NETWORK, members, most_records, taught_on, f"version {TAUGHT}", CHECKPOINTS])
    path = inner_folder(folder.parent, folder.name) / name
    if not path.exists():
        simulator = untaught(Blended(), members=members)
        simulator.fit(_records(cells, most_records))
        partial = folder / f".{path.name}.{uuid.uuid4().hex}"
        simulator.save(partial)
        try:
            partial.rename(path)
        except OSError:  # another process was faster, with the same checkpoint
            shutil.rmtree(partial)
    return path


def strange_to(cells: Sequence[RecordedCell], model: str, cluster: str) -> list[RecordedCell]:
    """The cells that share neither the model nor the cluster, by name."""
    return [cell for cell in cells if not {model, cluster}.intersection((cell.model, cell.cluster))]


def others_than(cell: RecordedCell, cells: Iterable[RecordedCell]) -> list[RecordedCell]:
    """The cells but for `cell`, whose times are of the same kind, so that they can teach a simulator of it."""
    return [each for each in cells if each is not cell and each.kind == cell.kind]


def _records(cells: Sequence[RecordedCell], most: int | None) -> list[RuntimeRecord]:
    records = [each for cell in cells for trials in cell.trials.values() for each in trials if each.timed]
    if most is None or len(records) <= most:
        return records
    return [records[index * len(records) // most] for index in range(most)]


FORMAT = "autosync.bench.search/3"
SEEDS_A_JOB = 5
"""Seeds of one job, and so the most searches that an interrupted command loses in each process."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Row = dict[str, Any]


@final
@dataclass(frozen=True)
class SearchJob:
    """`searcher` on the cell called `cell`, with seeds from `first_seed` on, each for up to `trials` trials.

    `data` is the digest of what was measured of the cell. `baselines` tells whether the baselines are given, or are
    strategies like others. `taught_on` is the digest of the other cells, where they matter. `drawn` tells whether each
    seed searches a `drawn_cell`, or what was recorded.
    """

    cell: str
    data: str
    searcher: str
    baselines: bool
    trials: int
    first_seed: int
    taught_on: str = ""
    drawn: bool = False

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + SEEDS_A_JOB)

    @property
    def key(self) -> str:
        chosen = [self.searcher, self.baselines, self.trials, self.first_seed, SEEDS_A_JOB, self.taught_on]
        return digest([FORMAT, self.data, *chosen, *(["drawn"] if self.drawn else []), of_replay(self.searcher)])

    def __str__(self) -> str:
        without = "" if self.baselines else ", no baselines given"
        noise = ", noise drawn" if self.drawn else ""
        return f"{self.cell}: {self.searcher}{without}{noise}, seeds {self.seeds.start} to {self.seeds.stop - 1}"


@final
@dataclass(frozen=True)
class Replaying:
    """Runs jobs: `data` has their records, and `checkpoints` are kept of what was learned of other cells."""

    data: Place
    checkpoints: Path

    def run(self, jobs: Sequence[SearchJob], processes: int) -> Iterator[tuple[SearchJob, list[Row]]]:
        """Carry out the jobs, in this process or in several others, and yield each with its rows as it is done.

        Raises `BenchError` when the records have changed since the jobs were made.
        """
        if processes == 1:
            records = _Records.read(self.data)
            yield from ((job, self._rows(job, records)) for job in jobs)
            return
        with _one_thread_each(), guarded(), ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            futures = {pool.submit(self.in_other_process, job): job for job in jobs}
            try:
                yield from ((futures[each], each.result()) for each in as_completed(futures))
            finally:
                pool.shutdown(cancel_futures=True)

    def in_other_process(self, job: SearchJob) -> list[Row]:
        return self._rows(job, _read_once(self.data))

    def _rows(self, job: SearchJob, records: _Records) -> list[Row]:
        cell = records.cells.get(job.cell)
        if cell is None or cell.digest != job.data:
            raise BenchError(f"The records of {job.cell} have changed since this command began; run it again.")
        checkpoint = None
        if job.searcher in TRANSFERRING:
            checkpoint = checkpoint_of(others_than(cell, records.cells.values()), self.checkpoints)
        memory = {} if job.drawn else records.memories.setdefault(job.cell, {})  # no two drawn cells are alike
        cells = [(seed, drawn_cell(cell, seed) if job.drawn else cell) for seed in job.seeds]
        return [searched(each, job, seed, PriorKnowledge(checkpoint, each, memory)) for seed, each in cells]


@dataclass(frozen=True)
class _Records:
    """The cells by name, and what simulators predicted for each."""

    cells: Mapping[str, RecordedCell]
    memories: dict[str, Memory]

    @classmethod
    def read(cls, data: Place) -> _Records:
        return cls({cell.name: cell for cell in read_cells(data)[0]}, {})


@lru_cache(maxsize=1)
def _read_once(data: Place) -> _Records:
    """The records, read once by a process that lives for one command."""
    return _Records.read(data)


def searched(
    cell: RecordedCell, job: SearchJob, seed: int, known: PriorKnowledge, clock: Callable[[], float] = time.process_time
) -> Row:
    """One search as a row of results; `clock` tells how long the searcher thought."""
    table = RecordedTable(cell, seed)
    # Searchers ask for the one class SearchSpace; a pool has all of it that they use.
    space = cast(SearchSpace, PoolSpace(cell.space, tuple(cell.trials), table.is_open))
    baselines = cell.baselines if job.baselines else ()
    clocks: list[float] = []
    begin = clock()
    searcher = CONTENDERS[job.searcher](Beginning(space, baselines, seed, known))
    records = run_search(searcher, table, job.trials, lambda _: clocks.append(table.clock_seconds))
    thought = clock() - begin
    found = [cell.space.canonical(each.strategy) for each in records]
    return {
        "cell": cell.name,
        "data": job.data,
        "model": cell.space.model.name,
        "searcher": job.searcher,
        "baselines": job.baselines,
        "seed": seed,
        "trials": job.trials,
        "taught_on": job.taught_on,
        "pool": len(cell.trials),
        "best_seconds": cell.best_seconds,
        "baseline_seconds": cell.baseline_seconds,
        "strategies": [each.digest for each in found],
        "labels": [each.label for each in records],
        "purposes": [each.purpose for each in records],
        "measured_seconds": [each.median_seconds for each in records],
        "true_seconds": [cell.seconds[each] for each in found],
        "hits": [cell.is_hit(each) for each in records],
        "clock_seconds": clocks,
        "search_seconds": thought,
        "version": of_replay(job.searcher),
    }


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Begin processes here with one thread for arrays: there are as many processes as cores."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

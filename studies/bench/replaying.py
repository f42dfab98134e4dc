"""Searches on recorded cells. A job is a block of seeds of one searcher on one cell; jobs run in processes."""

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
from autosync.search.pool_space import PoolSpace
from autosync.search.protocol import run_search
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, digest
from autosync.spec.address import Place
from autosync.tune.recorded.cells import RecordedCell, read_cells
from autosync.tune.recorded.table import RecordedTable
from studies.bench.contenders import (
    CONTENDERS,
    MEMBERS,
    NETWORK,
    TRANSFERRING,
    Beginning,
    PriorKnowledge,
    untaught,
)
from studies.bench.oracle import draw_cell
from studies.bench.pooled_simulator import PredictionMemory
from studies.bench.versions import TAUGHT, of_replay
from trials.guard import guarding

MOST_RECORDS = 400
"""Most records to pretrain a simulator on for a replay; if there are more, they are taken evenly from all cells."""


def checkpoint_of(
    cells: Sequence[RecordedCell],
    folder: Path,
    members: int = MEMBERS,
    most_records: int | None = MOST_RECORDS,
    framework: str | None = None,
) -> Path:
    """Return the checkpoint of an ensemble of `members` of `NETWORK`, trained on the records of `cells`.

    At most `most_records` records are used, or all if None. The checkpoint is made once and kept in `folder`.
    `framework` is the one that the records name; None for Keras models.
    """
    from autosync.simulator import CHECKPOINTS  # imports torch, so only where needed

    taught_on = sorted(cell.digest for cell in cells)
    of_framework = [] if framework is None else [framework]
    name = digest([NETWORK, members, most_records, taught_on, f"version {TAUGHT}", CHECKPOINTS, *of_framework])
    path = inner_folder(folder.parent, folder.name) / name
    if not path.exists():
        simulator = untaught(Blended(framework), members=members)
        simulator.fit(_records(cells, most_records))
        partial = folder / f".{path.name}.{uuid.uuid4().hex}"
        simulator.save(partial)
        try:
            partial.rename(path)
        except OSError:  # another process has already written the same checkpoint
            shutil.rmtree(partial)
    return path


def strange_to(cells: Sequence[RecordedCell], model: str, cluster: str) -> list[RecordedCell]:
    """Return the cells that share neither the name of the model nor that of the cluster."""
    return [cell for cell in cells if not {model, cluster}.intersection((cell.model, cell.cluster))]


def others_than(cell: RecordedCell, cells: Iterable[RecordedCell]) -> list[RecordedCell]:
    """Return the cells except `cell` with the same kind of times, on which a simulator for `cell` can be trained."""
    return [teacher for teacher in cells if teacher is not cell and teacher.kind == cell.kind]


def _records(cells: Sequence[RecordedCell], most: int | None) -> list[RuntimeRecord]:
    records = [trial for cell in cells for trials in cell.trials.values() for trial in trials if trial.timed]
    if most is None or len(records) <= most:
        return records
    return [records[index * len(records) // most] for index in range(most)]


FORMAT = "autosync.bench.search/3"
SEEDS_A_JOB = 5
"""Seeds of one job, and therefore the most searches that an interrupted command loses in each process."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Row = dict[str, Any]


@final
@dataclass(frozen=True)
class SearchJob:
    """A job: `searcher` on the cell named `cell`, with `SEEDS_A_JOB` seeds."""

    cell: str
    data: str
    """Digest of the cell's measurements."""
    searcher: str
    baselines: bool
    """Whether the searcher gets the baselines; if not, they are strategies like all others."""
    trials: int
    """Most trials of each search."""
    first_seed: int
    taught_on: str = ""
    """Digest of the cells that the simulator is pretrained on; empty if the searcher does not transfer."""
    drawn: bool = False
    """Whether each seed searches a `draw_cell`, rather than the recorded cell."""

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
    """Runs jobs on the records in `data`; keeps simulators pretrained on other cells in the folder `checkpoints`."""

    data: Place
    checkpoints: Path

    def run(self, jobs: Sequence[SearchJob], processes: int) -> Iterator[tuple[SearchJob, list[Row]]]:
        """Run the jobs, in this process or in several others, and yield each job with its rows as soon as it is done.

        Raises `BenchError` if the records have changed since the jobs were made.
        """
        if processes == 1:
            records = _Records.read(self.data)
            yield from ((job, self._rows(job, records)) for job in jobs)
            return
        with _limit_threads(), guarding(), ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            futures = {pool.submit(self.in_other_process, job): job for job in jobs}
            try:
                yield from ((futures[future], future.result()) for future in as_completed(futures))
            finally:
                pool.shutdown(cancel_futures=True)

    def in_other_process(self, job: SearchJob) -> list[Row]:
        """Run the job in a worker process, which reads the records once."""
        return self._rows(job, _read_once(self.data))

    def _rows(self, job: SearchJob, records: _Records) -> list[Row]:
        cell = records.cells.get(job.cell)
        if cell is None or cell.digest != job.data:
            raise BenchError(f"The records of {job.cell} have changed since this command started; run it again.")
        checkpoint = None
        if job.searcher in TRANSFERRING:
            checkpoint = checkpoint_of(others_than(cell, records.cells.values()), self.checkpoints)
        memory = {} if job.drawn else records.memories.setdefault(job.cell, {})  # drawn cells differ by seed
        cells = [(seed, draw_cell(cell, seed) if job.drawn else cell) for seed in job.seeds]
        return [
            replay_search(version, job, seed, PriorKnowledge(checkpoint, version, memory)) for seed, version in cells
        ]


@dataclass(frozen=True)
class _Records:
    """The cells by name, and the simulators' predictions for each cell."""

    cells: Mapping[str, RecordedCell]
    memories: dict[str, PredictionMemory]

    @classmethod
    def read(cls, data: Place) -> _Records:
        return cls({cell.name: cell for cell in read_cells(data)[0]}, {})


@lru_cache(maxsize=1)
def _read_once(data: Place) -> _Records:
    """Return the records, read once per process; a process lives for one command."""
    return _Records.read(data)


def replay_search(
    cell: RecordedCell, job: SearchJob, seed: int, known: PriorKnowledge, clock: Callable[[], float] = time.process_time
) -> Row:
    """Run one search and return its row of results; `clock` measures the searcher's time."""
    table = RecordedTable(cell, seed)
    # Searchers are typed for the class SearchSpace; a pool has all of its methods that they use.
    space = cast(SearchSpace, PoolSpace(cell.space, tuple(cell.trials), table.is_open))
    baselines = cell.baselines if job.baselines else ()
    clocks: list[float] = []
    begin = clock()
    searcher = CONTENDERS[job.searcher](Beginning(space, baselines, seed, known))
    records = run_search(searcher, table, job.trials, lambda _: clocks.append(table.clock_seconds))
    thought = clock() - begin
    strategies = [cell.space.canonical(record.strategy) for record in records]
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
        "strategies": [strategy.digest for strategy in strategies],
        "labels": [record.label for record in records],
        "purposes": [record.purpose for record in records],
        "measured_seconds": [record.median_seconds for record in records],
        "true_seconds": [cell.seconds[strategy] for strategy in strategies],
        "hits": [cell.is_hit(record) for record in records],
        "clock_seconds": clocks,
        "search_seconds": thought,
        "version": of_replay(job.searcher),
    }


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Start child processes with one array thread each, because there are as many processes as cores."""
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

"""A block of trials in one cell, each on disk before the next; and how busy the machine is, waited for and noted."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import final

import psutil

from autosync.dataset import RecordStore
from autosync.engine.version import ENGINE
from autosync.engine.zoo import default_space
from autosync.errors import TrialError
from autosync.spec import ModelSpec, RuntimeRecord
from autosync.stats.cells import CellName
from autosync.studies.collect.plan import Plan
from autosync.studies.collect.proposing import Proposer
from autosync.studies.collect.schedule import Slot
from search_spaces import load_space
from trials.fleet.lanes import Backend
from trials.trial import TrialRequest


def load_average() -> float:
    """The number of processes that ran or wanted to, on the whole machine, averaged over the last minute."""
    return os.getloadavg()[0]


def _at_once() -> None:
    """Wait for nothing."""


@dataclass(frozen=True)
class Conditions:
    """What is noted: `load_average` is asked just before each trial, and before that `settle` is waited for.

    `model` is what records name, where that is to be another profile of it than the back end's.
    """

    load_average: Callable[[], float] = load_average
    model: ModelSpec | None = None
    settle: Callable[[], None] = _at_once


BUSY_CORES = 0.3
"""The most cores that are busy on a quiet machine: between two trials the workers wait, and Ray takes 0.05 to 0.15."""

SAMPLE_SECONDS = 0.5
PAUSE_SECONDS = 1.0


def busy_cores(seconds: float = SAMPLE_SECONDS) -> float:
    """Cores of the whole machine that were not idle over the next `seconds`; what a hypervisor took counts as busy."""
    return float(psutil.cpu_percent(interval=seconds)) / 100 * (psutil.cpu_count() or 1)


def wait_until_quiet(
    longest_seconds: float,
    busy: Callable[[], float] = busy_cores,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when at most `BUSY_CORES` are busy, or after `longest_seconds`; with 0, return at once."""
    deadline = clock() + longest_seconds
    while clock() < deadline and busy() > BUSY_CORES:
        sleep(PAUSE_SECONDS)


MOST_LOST_IN_A_ROW = 2
"""Lost trials in a row after which the cluster is not trusted any more; the next visit has a new one."""


@final
class Block:
    """Trials of one cell on one back end. Call `take_up` with what is on disk before the first of them."""

    def __init__(
        self, plan: Plan, cell: CellName, backend: Backend, store: RecordStore, conditions: Conditions
    ) -> None:
        self._plan, self._cell, self._backend, self._store = plan, cell, backend, store
        self._conditions = conditions
        space = load_space(default_space(backend.model.name)).bind(backend.model, backend.cluster)
        self._proposer = Proposer(plan, cell, space)
        self._best: float | None = None
        self._lost_in_a_row = 0

    def take_up(self, records: Iterable[RuntimeRecord]) -> None:
        """Learn from the cell's records. Raises `TrialError` when one is of another model, cluster or engine."""
        for record in records:
            self._check_same(record)
            self._learn(record)

    def time(self, slot: Slot) -> RuntimeRecord | None:
        """The record of `slot`, which is on disk; None when there is nothing to time in it.

        Raises `TrialError` when no more trials can be run here.
        """
        proposal = self._proposer.propose(slot)
        if proposal is None:
            return None
        request = TrialRequest(
            strategy=proposal.strategy,
            protocol=self._plan.protocol,
            purpose=proposal.purpose,
            label=proposal.label,
            run=self._plan.run_of(self._cell),
            seed=self._plan.seed,
            best_median_seconds=self._best,
            predicted_seconds=proposal.predicted_seconds,
        )
        self._conditions.settle()
        load = self._conditions.load_average()
        record = self._backend.run(request)
        model = self._conditions.model or record.model
        record = replace(record, model=model, sequence=slot.number, load_average=load)
        self._store.append(record)
        self._learn(record)
        self._lost_in_a_row = self._lost_in_a_row + 1 if record.outcome == "lost" else 0
        return record

    @property
    def is_broken(self) -> bool:
        """Whether trial after trial is lost, so that the cluster must be made anew."""
        return self._lost_in_a_row >= MOST_LOST_IN_A_ROW

    def _learn(self, record: RuntimeRecord) -> None:
        self._proposer.tell(record)
        if record.outcome == "ok" and record.median_seconds is not None:
            self._best = min(record.median_seconds, self._best or record.median_seconds)

    def _check_same(self, record: RuntimeRecord) -> None:
        for what, here, there in (
            ("model", self._backend.model.digest, record.model.digest),
            ("cluster", self._backend.cluster.digest, record.cluster.digest),
            ("version of the engine", ENGINE, record.engine),
        ):
            if here != there:
                raise TrialError(
                    f"All records of a cell are of one {what}, but {self._cell}'s was {there} and now is {here}; "
                    "collect under another plan's name, or into another folder."
                )

"""Runs the trials of one cell and writes each record before the next trial; waits for a quiet machine and notes its
load."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import final

import psutil

from autosync.dataset import RecordStore
from autosync.engine.core.versions import VERSIONS
from autosync.errors import TrialError
from autosync.search.protocol import Proposal
from autosync.spec import ModelSpec, RuntimeRecord
from autosync.stats.cells import CellName
from autosync.tune.refusals import can_overlap, sends_rows_apart
from autosync.zoo import default_space
from search_spaces import load_space
from studies.collect.plan import Plan
from studies.collect.proposing import Proposer
from studies.collect.schedule import Slot
from trials.fleet.lanes import Backend
from trials.trial import TrialRequest


def load_average() -> float:
    """Return the number of running and runnable processes on the whole machine, averaged over the last minute."""
    return os.getloadavg()[0]


def _no_wait() -> None:
    """Return at once."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a trial, checked just before the trial: first `settle`, then `load_average`."""

    load_average: Callable[[], float] = load_average
    """Returns the load average to note in the record."""
    model: ModelSpec | None = None
    """The model to write into records, if its profile differs from that of the back end's model; else None."""
    settle: Callable[[], None] = _no_wait
    """Waits until the machine is quiet."""


BUSY_CORES = 0.3
"""Most busy cores of a quiet machine. Between two trials the workers wait, and Ray uses 0.05 to 0.15 cores."""

SAMPLE_SECONDS = 0.5
PAUSE_SECONDS = 1.0


def busy_cores(seconds: float = SAMPLE_SECONDS) -> float:
    """Measure the busy cores of the whole machine for `seconds`; time taken by a hypervisor counts as busy."""
    return float(psutil.cpu_percent(interval=seconds)) / 100 * (psutil.cpu_count() or 1)


def wait_until_quiet(
    longest_seconds: float,
    busy: Callable[[], float] = busy_cores,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until at most `BUSY_CORES` cores are busy, but at most `longest_seconds`; with 0, return at once."""
    deadline = clock() + longest_seconds
    while clock() < deadline and busy() > BUSY_CORES:
        sleep(PAUSE_SECONDS)


MOST_LOST_IN_A_ROW = 2
"""Lost trials in a row after which the cluster counts as broken; the next visit makes a new cluster."""


@final
class TrialBlock:
    """Runs trials of one cell on one back end. Call `take_up` with the records on disk before the first trial."""

    def __init__(
        self, plan: Plan, cell: CellName, backend: Backend, store: RecordStore, conditions: Conditions
    ) -> None:
        self._plan, self._cell, self._backend, self._store = plan, cell, backend, store
        self._conditions = conditions
        model, cluster = backend.model, backend.cluster
        overlaps, rows_apart = can_overlap(plan.framework, model, cluster), sends_rows_apart(plan.framework)
        space = load_space(default_space(model.name)).bind(model, cluster, overlaps, rows_apart)
        self._proposer = Proposer(plan, cell, space)
        self._best: float | None = None
        self._lost_in_a_row = 0

    def take_up(self, records: Iterable[RuntimeRecord]) -> None:
        """Learn from the cell's records. Raises `TrialError` if a record has another model, cluster or engine."""
        for record in records:
            self._check_same(record)
            self._learn(record)

    def rehearse(self, slot: Slot) -> None:
        """Run the trial of `slot` and discard its times, because new processes are slower in their first trial."""
        if proposal := self._proposer.propose(slot):
            self._backend.run(self._request(proposal))

    def time(self, slot: Slot) -> RuntimeRecord | None:
        """Time `slot`, write its record to disk and return the record; None if the slot has no strategy to time.

        Raises `TrialError` if no more trials can run on this back end.
        """
        proposal = self._proposer.propose(slot)
        if proposal is None:
            return None
        self._conditions.settle()
        load = self._conditions.load_average()
        record = self._backend.run(self._request(proposal))
        model = self._conditions.model or record.model
        record = replace(record, model=model, sequence=slot.number, load_average=load)
        self._store.append(record)
        self._learn(record)
        self._lost_in_a_row = self._lost_in_a_row + 1 if record.outcome == "lost" else 0
        return record

    @property
    def is_broken(self) -> bool:
        """Whether several trials in a row were lost, so that the cluster must be made again."""
        return self._lost_in_a_row >= MOST_LOST_IN_A_ROW

    def _request(self, proposal: Proposal) -> TrialRequest:
        return TrialRequest(
            strategy=proposal.strategy,
            protocol=self._plan.protocol,
            purpose=proposal.purpose,
            label=proposal.label,
            run=self._plan.run_of(self._cell),
            seed=self._plan.seed,
            best_median_seconds=self._best,
            predicted_seconds=proposal.predicted_seconds,
        )

    def _learn(self, record: RuntimeRecord) -> None:
        self._proposer.tell(record)
        if record.outcome == "ok" and record.median_seconds is not None:
            self._best = min(record.median_seconds, self._best or record.median_seconds)

    def _check_same(self, record: RuntimeRecord) -> None:
        for part, present, recorded in (
            ("model", self._backend.model.digest, record.model.digest),
            ("cluster", self._backend.cluster.digest, record.cluster.digest),
            ("version of the engine", VERSIONS[self._plan.framework], record.engine),
        ):
            if present != recorded:
                raise TrialError(
                    f"All records of a cell need the same {part}, but for {self._cell} it was {recorded} and is now "
                    f"{present}; collect under another plan name, or into another folder."
                )

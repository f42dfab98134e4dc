"""Times each strategy of a job once: methods that propose the same strategy share its record, as do resumed jobs."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import final

from autosync.dataset import RecordStore
from autosync.engine.core.versions import VERSIONS
from autosync.errors import NodesLostError, TrialError
from autosync.spec import ModelSpec, RuntimeRecord
from studies.proof.cells import FRAMEWORK
from trials.fleet.lanes import Backend
from trials.trial import TrialRequest

MOST_LOSSES = 3
"""Losses of one trial in a row after which the cluster counts as broken."""


class OutOfTimeError(Exception):
    """The time of the command is over; all records are kept."""


@final
class JobTimer:
    """Runs the trials of a job on a back end, and keeps every record."""

    def __init__(
        self,
        backend: Backend,
        model: ModelSpec,
        store: RecordStore,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`model` is the one that records name, with the kept profile. No trial starts after `deadline` on `clock`."""
        self._backend = backend
        self._model = model
        self._store = store
        self._deadline = deadline
        self._clock = clock
        self._known: dict[str, RuntimeRecord] = {}
        self.timed = 0
        """The number of trials that this process ran."""

    def take_up(self, records: Iterable[RuntimeRecord]) -> None:
        """Take over the trials of earlier processes that the present engine timed.

        Raises `TrialError` if a record has another model or cluster.
        """
        for record in records:
            for part, present, kept in (
                ("model", self._model.digest, record.model.digest),
                ("cluster", self._backend.cluster.digest, record.cluster.digest),
            ):
                if present != kept:
                    raise TrialError(
                        f"All records of {record.run} need the same {part}, but it was {kept} and is now {present}; "
                        "use another --out."
                    )
            is_present = record.engine == VERSIONS[FRAMEWORK]
            if is_present and record.purpose != "remeasure" and record.outcome != "lost":
                self._known[record.strategy.digest] = record

    def once(self, request: TrialRequest) -> RuntimeRecord:
        """Return the record of the strategy, with the request's own label, purpose and prediction."""
        record = self._known.get(request.strategy.digest)
        if record is None:
            record = self._known[request.strategy.digest] = self.run(request)
        return replace(
            record,
            label=request.label,
            purpose=request.purpose,
            predicted_seconds=request.predicted_seconds,
        )

    def run(self, request: TrialRequest) -> RuntimeRecord:
        """Run a trial, again if it is lost with a worker, and keep the record.

        Raises `OutOfTimeError`, and `NodesLostError` after `MOST_LOSSES`.
        """
        for _ in range(MOST_LOSSES):
            if self._clock() > self._deadline:
                raise OutOfTimeError
            record = replace(self._backend.run(request), model=self._model)
            self._store.append(record)
            self.timed += 1
            if record.outcome != "lost":
                return record
        raise NodesLostError(f"A trial was lost {MOST_LOSSES} times in a row; the cluster will be made again.")

    def rehearse(self, request: TrialRequest) -> None:
        """Run a trial without a record, because new processes are slower in their first trial."""
        self._backend.run(request)

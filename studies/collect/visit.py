"""A visit: times the due slots of some models on an emulated cluster that is up. Runs on the cluster's head.

`studies.collect.rounds` starts a visit as a process of its own, which ends together with the collection.
"""

import sys
import time
from dataclasses import replace
from functools import partial

import ray
from ray.exceptions import RayError, RayTaskError

from autosync.dataset import RecordStore
from autosync.errors import AutosyncError, DatasetError, NodesLostError
from autosync.spec import RuntimeRecord, read_device_profile
from autosync.stats.cells import CellName
from studies.collect.block import Conditions, TrialBlock, wait_until_quiet
from studies.collect.events import SkippedSlot, TrialEvent, Trouble, VisitRequest, write_event
from studies.collect.folder import Folder
from studies.collect.head import BROKEN, backend_on_head, end_with_the_caller
from studies.collect.plan import read_plan
from studies.collect.schedule import FinishedSlots, slots_until
from trials.trial import reason_of
from trials.workers.local_ray import RayStart, start_ray


def main(arguments: list[str]) -> int:
    """Run the visit requested in the only argument; return the exit status."""
    end_with_the_caller()
    request = VisitRequest.from_json(arguments[0])
    start_ray(RayStart())
    try:
        visit = _Visit(request)
        for model in request.models:
            visit.work_off(model)
    finally:
        ray.shutdown()
    return 0


class _Visit:
    def __init__(self, request: VisitRequest) -> None:
        self._request = request
        self._plan = read_plan(request.plan)
        self._folder = Folder(request.out)
        self._store = RecordStore.create(self._folder.records)
        self._conditions = Conditions(settle=partial(wait_until_quiet, request.settle_seconds))
        self._deadline = time.monotonic() + request.seconds

    def work_off(self, model: str) -> None:
        """Time the due slots of one model. An error is reported, and the visit continues with the next model."""
        cell = CellName(model, self._request.cluster)
        try:
            self._work_off(cell)
        except (DatasetError, NodesLostError) as error:
            write_event(Trouble(cell, str(error)))
            sys.exit(BROKEN)
        except AutosyncError as error:
            write_event(Trouble(cell, str(error)))
        except RayTaskError as error:  # the next model may still succeed
            write_event(Trouble(cell, reason_of(error.cause)))
        except RayError as error:
            write_event(Trouble(cell, reason_of(error)))

    def _work_off(self, cell: CellName) -> None:
        records = self._store.read(run=self._plan.run_of(cell))
        done = FinishedSlots(self._plan, ((record.run, record.sequence, record.outcome) for record in records))
        due = done.left(cell, slots_until(self._plan, cell, self._request.round_number))
        if not due or self._time_is_over():
            return
        profile = None if self._request.profile is None else read_device_profile(self._request.profile)
        backend = backend_on_head(self._folder, cell, self._plan.framework, profile)
        try:
            model = self._folder.with_profile(backend.model)
            block = TrialBlock(self._plan, cell, backend, self._store, replace(self._conditions, model=model))
            block.take_up(records)
            block.rehearse(due[0])
            for slot in due:
                if self._time_is_over():
                    return
                record = block.time(slot)
                write_event(
                    SkippedSlot(cell, slot.number) if record is None else _trial_event(cell, slot.number, record)
                )
                if block.is_broken:
                    raise NodesLostError("Several trials in a row were lost; the cluster will be made again.")
        finally:
            backend.close()

    def _time_is_over(self) -> bool:
        return time.monotonic() > self._deadline


def _trial_event(cell: CellName, sequence: int, record: RuntimeRecord) -> TrialEvent:
    return TrialEvent(
        cell=cell,
        sequence=sequence,
        outcome=record.outcome,
        digest=record.strategy.digest,
        label=record.label,
        repeat=record.purpose == "remeasure",
        median_seconds=record.median_seconds,
        reason=record.reason,
        time=record.time,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

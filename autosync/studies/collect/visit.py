"""A visit: the due slots of some models, timed on an emulated cluster that is up. Runs on the cluster's head.

Started by `autosync.studies.collect.rounds` as a process of its own, which ends when the collection that sent it does.
"""

import os
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import ray
from ray.exceptions import RayError, RayTaskError

from autosync.dataset import RecordStore
from autosync.errors import AutosyncError, ClusterError, DatasetError, NodesLostError
from autosync.spec import RuntimeRecord, read_device_profile
from autosync.stats.cells import CellName
from autosync.studies.collect.block import Block, Conditions, wait_until_quiet
from autosync.studies.collect.events import Errand, Passed, Told, Trouble, write_event
from autosync.studies.collect.folder import Folder
from autosync.studies.collect.plan import read_plan
from autosync.studies.collect.schedule import Done, slots_until
from trials.cluster.discovery import cluster_from_ray_nodes
from trials.cluster.seats import addresses_of, seated_like, unlike_machines
from trials.fleet.on_ray import Launch, RayBackend
from trials.opening import model_on, trials_on_ray
from trials.trial import reason_of
from trials.workers.local_ray import RayStart, start_ray

BROKEN = 1
"""The exit status when no other model would fare better; why that is has been told."""


def main(arguments: list[str]) -> int:
    """Run the errand in the one argument; return the exit status."""
    _end_with_the_collection()
    errand = Errand.from_json(arguments[0])
    start_ray(RayStart())
    try:
        visit = _Visit(errand)
        for model in errand.models:
            visit.work_off(model)
    finally:
        ray.shutdown()
    return 0


class _Visit:
    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self._plan = read_plan(errand.plan)
        self._folder = Folder(errand.out)
        self._store = RecordStore.create(self._folder.records)
        self._conditions = Conditions(settle=partial(wait_until_quiet, errand.settle_seconds))
        self._deadline = time.monotonic() + errand.seconds

    def work_off(self, model: str) -> None:
        """Time the due slots of one model. What goes wrong is told, and the next model has its turn."""
        cell = CellName(model, self._errand.cluster)
        try:
            self._work_off(cell)
        except (DatasetError, NodesLostError) as error:
            write_event(Trouble(cell, str(error)))
            sys.exit(BROKEN)
        except AutosyncError as error:
            write_event(Trouble(cell, str(error)))
        except RayTaskError as error:  # whatever Ray raises, the next model may fare better
            write_event(Trouble(cell, reason_of(error.cause)))
        except RayError as error:
            write_event(Trouble(cell, reason_of(error)))

    def _work_off(self, cell: CellName) -> None:
        records = self._store.read(run=self._plan.run_of(cell))
        done = Done(self._plan, ((each.run, each.sequence, each.outcome) for each in records))
        due = done.left(cell, slots_until(self._plan, cell, self._errand.round_number))
        if not due or self._time_is_over():
            return
        backend = self._backend(cell)
        try:
            model = self._folder.profiled(backend.model)
            block = Block(self._plan, cell, backend, self._store, replace(self._conditions, model=model))
            block.take_up(records)
            for slot in due:
                if self._time_is_over():
                    return
                record = block.time(slot)
                write_event(Passed(cell, slot.number) if record is None else _told(cell, slot.number, record))
                if block.is_broken:
                    raise NodesLostError("Trial after trial is lost; the cluster will be made anew.")
        finally:
            backend.close()

    def _time_is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def _backend(self, cell: CellName) -> RayBackend:
        """A back end with the model captured, on the cluster, which is measured if no visit has met it before."""
        found = cluster_from_ray_nodes(ray.nodes())
        before = self._folder.read_cluster(cell.cluster)
        if before is not None:
            if different := unlike_machines(before, found):
                raise ClusterError(f"Cluster {cell.cluster!r} must be as it was first measured, but has {different}.")
            found = seated_like(before, addresses_of(found))
        profile = None if self._errand.profile is None else read_device_profile(self._errand.profile)
        settings = trials_on_ray(found, probe=before is None, profile=profile)
        backend = RayBackend(Launch(model_on(cell.model, found), found, settings))
        if before is None:
            self._folder.write_cluster(cell.cluster, backend.cluster, backend.probing)
        return backend


def _told(cell: CellName, sequence: int, record: RuntimeRecord) -> Told:
    return Told(
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


def _end_with_the_collection() -> None:
    """End this process when the one that sent it does, however that comes: the pipe from it is closed then."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # nothing is ever written
        os._exit(BROKEN)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

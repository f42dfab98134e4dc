"""Experiments on an emulated cluster: passes are paced, links are shaped, and all of it is waited for.

A cluster is made for each piece of work; what is measured runs on its head, in a process of its own, and leaves rows.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from autosync.baselines import BASELINES
from autosync.dataset import ResultStore
from autosync.errors import BenchError
from autosync.spec import Discipline, Strategy, Target, TargetRecord
from autosync.studies.literature.rows import COLUMNS, Row, Rows, kept
from trials.cluster.file import cluster_to_emulate
from trials.emulate import emulated, run_inside
from trials.emulate.ordinary import begin_as_root
from trials.fleet.lanes import Backend
from trials.opening import Choice, opened
from trials.to_target import TargetRequest

NEVER = -1.0
"""A loss that is not reached: all steps are taken."""


@dataclass(frozen=True)
class Errand:
    """To call `measure`, as module:function, with a back end for `model` on a cluster like that of the file's text."""

    cluster: str
    model: str
    measure: str

    def rows(self, cell: str, seed: int) -> list[Row]:
        """What came of it. Raises `AutosyncError`; whatever becomes of it, nothing of the cluster is left."""
        name = f"literature{os.getpid()}"
        begin_as_root(name)
        with tempfile.TemporaryDirectory() as folder:
            file, found = Path(folder) / "cluster.yaml", Path(folder) / "rows"
            file.write_text(self.cluster)
            with emulated(name, cluster_to_emulate(str(file))) as made:
                command = [sys.executable, "-m", __name__, self.model, self.measure, cell, str(seed), str(found)]
                status = run_inside(made.hosts[0], command, within_quota=False)
            if status or not found.exists():
                raise BenchError(f"What was to be measured for {cell!r} ended with status {status}; run it again.")
            return list(Rows.of(ResultStore(found, COLUMNS).read()).all)


def steps_taken(backend: Backend, discipline: Discipline, steps: int, seed: int) -> TargetRecord:
    """So many steps of training under a discipline, all-reduced. Raises `BenchError` where they fail."""
    return taken(
        backend,
        replace(BASELINES["all_reduce_25mb"](backend.model, backend.cluster), discipline=discipline),
        steps,
        seed,
    )


def taken(backend: Backend, strategy: Strategy, steps: int, seed: int) -> TargetRecord:
    """So many steps of training under a strategy. Raises `BenchError` where they fail."""
    record = backend.train(TargetRequest(strategy, Target("loss", NEVER, every=steps, steps=steps), seed))
    if record.outcome != "not_reached":
        raise BenchError(f"Training of {backend.model.name!r} was to take {steps} steps: {record.reason}")
    return record


def main(arguments: Sequence[str]) -> int:
    """Measure on the cluster whose head this is."""
    model, measure, cell, seed, folder = arguments
    module, _, function = measure.partition(":")
    with opened(Choice(model)) as ready:
        rows = getattr(import_module(module), function)(ready.backend, cell, int(seed))
    ResultStore.create(Path(folder), COLUMNS).write("rows", [kept(each, measure, 0) for each in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Experiments in real time on an emulated cluster, with paced passes and shaped links.

A cluster is made for each work item. The measurement runs in a process of its own on the cluster's head and writes
rows.
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
from studies.literature.rows import COLUMNS, FigureRow, FigureRows, to_record
from trials.cluster.file import cluster_to_emulate
from trials.emulate import emulated, run_inside
from trials.emulate.rootless import begin_as_root
from trials.fleet.lanes import Backend
from trials.opening import BackendOptions, open_backend
from trials.to_target import TargetRequest

NEVER = -1.0
"""A loss that cannot be reached, so that all steps are train_steps."""


@dataclass(frozen=True)
class LiveMeasurement:
    """A measurement on an emulated cluster."""

    cluster: str
    """The text of the cluster file."""
    model: str
    measure: str
    """The function to call with a back end for `model`, as module:function."""

    def rows(self, cell: str, seed: int) -> list[FigureRow]:
        """Run the measurement and return its rows. The cluster is always removed. Raises `AutosyncError`."""
        name = f"literature{os.getpid()}"
        begin_as_root(name)
        with tempfile.TemporaryDirectory() as folder:
            file, results = Path(folder) / "cluster.yaml", Path(folder) / "rows"
            file.write_text(self.cluster)
            with emulated(name, cluster_to_emulate(str(file))) as made:
                command = [sys.executable, "-m", __name__, self.model, self.measure, cell, str(seed), str(results)]
                status = run_inside(made.hosts[0], command, within_quota=False)
            if status or not results.exists():
                raise BenchError(f"The measurement for {cell!r} ended with status {status}; run the command again.")
            return list(FigureRows.of(ResultStore(results, COLUMNS).read()).all)


def train_under(backend: Backend, discipline: Discipline, steps: int, seed: int) -> TargetRecord:
    """Train `steps` steps under a discipline with all-reduce. Raises `BenchError` if the training fails."""
    return train_steps(
        backend,
        replace(BASELINES["all_reduce_25mb"](backend.model, backend.cluster), discipline=discipline),
        steps,
        seed,
    )


def train_steps(backend: Backend, strategy: Strategy, steps: int, seed: int) -> TargetRecord:
    """Train `steps` steps under a strategy. Raises `BenchError` if the training fails."""
    record = backend.train(TargetRequest(strategy, Target("loss", NEVER, every=steps, steps=steps), seed))
    if record.outcome != "not_reached":
        raise BenchError(f"Training of {backend.model.name!r} must take {steps} steps, but: {record.reason}")
    return record


def main(arguments: Sequence[str]) -> int:
    """Run one measurement on the cluster whose head this process is on."""
    model, measure, cell, seed, folder = arguments
    module, _, function = measure.partition(":")
    with open_backend(BackendOptions(model)) as ready:
        rows = getattr(import_module(module), function)(ready.backend, cell, int(seed))
    ResultStore.create(Path(folder), COLUMNS).write("rows", [to_record(row, measure, 0) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

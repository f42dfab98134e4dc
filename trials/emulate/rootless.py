"""Emulated clusters of ordinary users: a command restarts as root of a user namespace, and a holder keeps that
alive.
"""

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import trials
from autosync.errors import ClusterError
from trials.emulate.as_root import NEW
from trials.emulate.listed import cluster_mark
from trials.emulate.processes import Process, outliving
from trials.emulate.requirements import Machine, check_machine
from trials.emulate.state import read_state

AS_ROOT = "import sys; sys.path.insert(0, sys.argv[1]); from trials.emulate.as_root import main; main(*sys.argv[2:])"


def begin_as_root(name: str) -> None:
    """Return if this process can emulate clusters. Otherwise restart it, with the same command line, where it can.

    That is the user namespace that already holds the emulated cluster `name`, or else a new one. Call this function
    before any work that must not be done twice. Raises `ClusterError` if the machine does not allow it.
    """
    machine = Machine.here()
    if machine.has_rights or machine.lacks_tool():
        check_machine()
        return
    state = read_state(name)
    holder = state.holder if state else None
    place = str(holder.pid) if holder and holder.runs() else NEW
    trial = subprocess.run(entering(place), capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        lines = trial.stderr.strip().splitlines() or [f"an attempt ended with status {trial.returncode}"]
        raise ClusterError(f"No cluster can be emulated here: {lines[-1]}.")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [*entering(place), sys.executable, *sys.orig_argv[1:]])


def entering(place: str) -> list[str]:
    """Return the words to put before a command, given by its path, to run it as `as_root` does at `place`."""
    root = str(Path(trials.__file__).resolve().parents[1])
    return [sys.executable, "-I", "-c", AS_ROOT, root, place]


def holding(folder: Path) -> AbstractContextManager[Process]:
    """Return a holder for the emulated cluster in `folder`, which outlives the block it is started in."""
    return outliving(["sh", "-c", "read go_on && exec sleep infinity"], env=os.environ | cluster_mark(folder))

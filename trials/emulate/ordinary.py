"""Emulated clusters of ordinary users: a command restarts as root of a user namespace, and a holder keeps that."""

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import trials
from autosync.errors import ClusterError
from trials.emulate.as_root import NEW
from trials.emulate.listed import marked
from trials.emulate.processes import Process, outliving
from trials.emulate.requirements import Machine, check_machine
from trials.emulate.state import read_state

AS_ROOT = "import sys; sys.path.insert(0, sys.argv[1]); from trials.emulate.as_root import main; main(*sys.argv[2:])"


def begin_as_root(name: str) -> None:
    """Return where clusters can be emulated. Else this process begins anew where they can, with the same command line.

    That is in the user namespace that holds the emulated cluster `name` already, or else in a new one. To be called
    before anything is begun that would be done twice. Raises `ClusterError` where the machine does not allow it.
    """
    machine = Machine.here()
    if machine.has_rights or machine.lacks_tool():
        check_machine()
        return
    state = read_state(name)
    holder = state.holder if state else None
    place = str(holder.pid) if holder and holder.runs() else NEW
    tried = subprocess.run(entering(place), capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        lines = tried.stderr.strip().splitlines() or [f"the trial of it ended with status {tried.returncode}"]
        raise ClusterError(f"No cluster can be emulated here: {lines[-1]}.")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [*entering(place), sys.executable, *sys.orig_argv[1:]])


def entering(place: str) -> list[str]:
    """The words before a command, given by its path, that is to be run as `as_root` does at `place`."""
    root = str(Path(trials.__file__).resolve().parents[1])
    return [sys.executable, "-I", "-c", AS_ROOT, root, place]


def holding(folder: Path) -> AbstractContextManager[Process]:
    """A holder for the emulated cluster in `folder`, which outlives the block it is begun in."""
    return outliving(["sh", "-c", "read go_on && exec sleep infinity"], env=os.environ | marked(folder))

"""Checks that everything in the state of an emulated cluster was made for it, before any of it is ended or removed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from trials.emulate.isolation import is_of_a_user_namespace
from trials.emulate.processes import Process
from trials.emulate.quotas import group_mounts

if TYPE_CHECKING:
    from trials.emulate.state import State

MARK = "AUTOSYNC_CLUSTER_FOLDER"
"""The environment variable that names the folder of its emulated cluster, in every process that a state lists."""


def marked(folder: Path) -> dict[str, str]:
    """The variable by which a process is known to be of the emulated cluster in `folder`."""
    return {MARK: str(folder)}


def foreign(state: State) -> str | None:
    """The first thing in `state` that was not made for its cluster, in words; None if all was."""
    for namespace in state.namespaces:
        if not re.fullmatch(rf"as-{state.name}-(switch|\d+)", namespace):
            return f"the network namespace {namespace!r}"
    for group in map(Path, state.cgroups):
        # A mount point of control groups is the kernel's: it holds no ordinary folder.
        beneath = any(group.is_relative_to(mount) and ".." not in group.parts for mount in group_mounts())
        if not beneath or not re.fullmatch(rf"autosync-{state.name}-\d+", group.name):
            return f"the control group {str(group)!r}"
    for process in state.processes.values():
        if process.runs() and not _is_of(process, state.folder):
            return f"process {process.pid}"
    return None


def _is_of(process: Process, folder: Path) -> bool:
    """Whether this user runs the process, and it was started for the emulated cluster in `folder`."""
    proc = Path(f"/proc/{process.pid}")
    try:
        if proc.stat().st_uid != os.geteuid():
            return False
        return f"{MARK}={folder}".encode() in (proc / "environ").read_bytes().split(b"\0") or _is_ending(proc)
    except PermissionError:
        return is_of_a_user_namespace()  # it is this user's, in another namespace of the user's
    except OSError:
        return _is_ending(proc)


def _is_ending(proc: Path) -> bool:
    """Whether the process at `proc` has no memory left, and so no environment, or is gone; a kill changes nothing."""
    try:
        return (proc / "statm").read_text(encoding="ascii").startswith("0 ")
    except OSError:
        return True

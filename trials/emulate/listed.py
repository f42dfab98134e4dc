"""Checks that every part in the state of an emulated cluster was made for it, before any part is ended or removed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from trials.emulate.isolation import is_of_a_user_namespace
from trials.emulate.processes import Process
from trials.emulate.quotas import group_mounts

MARK = "AUTOSYNC_CLUSTER_FOLDER"
"""The environment variable with the folder of the emulated cluster, in every process that a state lists."""

EXEC_SECONDS = 2.0
"""Seconds that a process may take from the start of `exec` to its new environment."""


def cluster_mark(folder: Path) -> dict[str, str]:
    """Return the variable that marks a process as part of the emulated cluster in `folder`."""
    return {MARK: str(folder)}


class StateListing(Protocol):
    """The parts that the state of an emulated cluster lists."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def namespaces(self) -> Collection[str]: ...

    @property
    def cgroups(self) -> Collection[str]: ...

    @property
    def processes(self) -> Mapping[str, Process]: ...


def foreign(state: StateListing) -> str | None:
    """Return the first part in `state` that was not made for its cluster, in words; None if there is none."""
    for namespace in state.namespaces:
        if not re.fullmatch(rf"as-{state.name}-(switch|\d+)", namespace):
            return f"the network namespace {namespace!r}"
    for group in map(Path, state.cgroups):
        # A mount point of control groups belongs to the kernel and holds no ordinary folder.
        beneath = any(group.is_relative_to(mount) and ".." not in group.parts for mount in group_mounts())
        if not beneath or not re.fullmatch(rf"autosync-{state.name}-\d+", group.name):
            return f"the control group {str(group)!r}"
    for process in state.processes.values():
        if process.runs() and not _is_of(process, state.folder):
            return f"process {process.pid}"
    return None


def _is_of(process: Process, folder: Path) -> bool:
    """True if this user runs the process, and it was started for the emulated cluster in `folder`."""
    proc = Path(f"/proc/{process.pid}")
    try:
        if proc.stat().st_uid != os.geteuid():
            return False
        return f"{MARK}={folder}".encode() in _environment(proc).split(b"\0") or _is_ending(proc)
    except PermissionError:
        return is_of_a_user_namespace()  # the process is this user's, in another of the user's namespaces
    except OSError:
        return _is_ending(proc)


def _environment(proc: Path) -> bytes:
    """Return the variables of the process at `proc`, with a zero byte after each variable.

    In the middle of `exec` a process has memory and no environment yet, so an empty environment is read again.
    """
    deadline = time.monotonic() + EXEC_SECONDS
    while not (variables := (proc / "environ").read_bytes()):
        if _is_ending(proc) or time.monotonic() >= deadline:
            break
        time.sleep(0.001)
    return variables


def _is_ending(proc: Path) -> bool:
    """True if the process at `proc` is gone or has no memory left, and so no environment; a kill then changes
    nothing.
    """
    try:
        return (proc / "statm").read_text(encoding="ascii").startswith("0 ")
    except OSError:
        return True

"""The parts of an emulated cluster, recorded in a file before any part is made."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import ClusterError
from autosync.files import write_atomically
from autosync.files.writing import is_temporary
from autosync.spec import ClusterSpec, Figure, Link, Node, cut
from autosync.spec.codec import Noun
from autosync.spec.reading import DOCUMENT, parse_json
from trials.emulate.hosts import PHASES_FILE
from trials.emulate.listed import foreign
from trials.emulate.own_folder import is_own, open_file, open_folder, remove
from trials.emulate.processes import Process

LONGEST_FOLDER = 40
"""The largest length of a folder's path in bytes: Ray adds some 65 bytes for sockets, whose paths may have 107."""

FORMAT = 1

STATE_FILE = "state.json"

NEW_STATE_FILE = "state.json.new"
"""The unfinished file of earlier versions."""

HOLDER = "holder"
"""The role of a process that only stays alive, so that later commands find the namespaces of the first command."""

CHANGER = "changer"
"""The role of the process that changes links at their times; it lives on after the last change."""

_RATE = Figure(1.0, "assumed")
_NOTHING = ClusterSpec((Node("none", "127.0.0.1", 1.0),), (Link("none", "none", _RATE, _RATE),))
"""A placeholder for the cluster of a folder that a crash left without a state file."""


@dataclass(frozen=True)
class State(Noun, always=("complete", "owner")):
    """The parts of an emulated cluster that `down` may remove, with the folder."""

    name: str
    cluster: ClusterSpec
    starts_ray: bool
    """True if every host runs a Ray node."""
    complete: bool = False
    """True once all parts are made."""
    namespaces: tuple[str, ...] = ()
    """The names of the network namespaces."""
    cgroups: tuple[str, ...] = ()
    """The paths of the control groups."""
    processes: dict[str, Process] = field(default_factory=dict)
    """The processes by role (`host0`, `relay`)."""
    dashboard_url: str = ""
    """The URL of Ray's dashboard on this machine; empty without Ray."""
    owner: Process | None = None
    """The process that the cluster was made for and ends with; None if the cluster outlives its maker."""

    @property
    def is_orphaned(self) -> bool:
        """True if the owning process has exited.

        A state without namespaces was never completed and is always orphaned.
        """
        if not self.namespaces:
            return True
        return self.owner is not None and not self.owner.runs()

    @property
    def holder(self) -> Process | None:
        """The process that keeps the user namespace of the cluster alive; None if root made the cluster."""
        return self.processes.get(HOLDER)

    @property
    def is_up(self) -> bool:
        """True if the cluster is complete and reachable; nodes may have died since."""
        needed = [self.processes[role] for role in (HOLDER, CHANGER) if role in self.processes]
        return self.complete and all(process.runs() for process in needed)

    @cached_property
    def folder(self) -> Path:
        return folder_of(self.name)

    @property
    def phases_file(self) -> Path:
        """The file with the start of each phase."""
        return self.folder / PHASES_FILE

    def with_process(self, role: str, process: Process) -> State:
        return replace(self, processes={**self.processes, role: process})

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT} | super().to_json()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> State:
        return super().from_json({name: value for name, value in document.items() if name != "format"})


def folder_of(name: str) -> Path:
    """Return the folder of the emulated cluster `name`.

    Raises `ClusterError` for an invalid name or a path too long.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,19}", name):
        raise ClusterError(f"An emulated cluster's name is 1 to 20 of a-z, 0-9 and '-', not {name!r}.")
    folder = Path(tempfile.gettempdir()).resolve() / f"autosync-{name}"
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        raise ClusterError(
            f"Ray's sockets need a short path, and {str(folder)!r} has over {LONGEST_FOLDER} bytes; give a shorter "
            "name, or set TMPDIR to a folder such as /tmp."
        )
    return folder


def names_there_are() -> list[str]:
    """Return the names of all emulated clusters of this user that have a state file, up or half-made."""
    folders = [file.parent for file in Path(tempfile.gettempdir()).glob("autosync-*/state.json")]
    return sorted(folder.name.removeprefix("autosync-") for folder in folders if is_own(folder))


def read_state(name: str) -> State | None:
    """Return the state of `name`; None if there is none.

    Raises `ClusterError` for a folder of another origin, and for a state with a part that was not made for `name`.
    """
    folder = folder_of(name)
    try:
        with open_file(folder, STATE_FILE) as stream:
            state = State.from_json(parse_json(stream.read(DOCUMENT.size + 1), "It"))
    except FileNotFoundError:
        return State(name, _NOTHING, starts_ray=False) if _is_ours(folder) else None
    except ClusterError:
        raise
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise ClusterError(
            f"File {str(folder / STATE_FILE)!r} was not written by `up` ({cut(repr(error))}); check it, and "
            "remove it by hand."
        ) from None
    foreign_part = foreign(state) if state.name == name else f"the cluster {state.name!r}"
    if foreign_part:
        raise ClusterError(
            f"File {str(folder / STATE_FILE)!r} lists {foreign_part}, which `up` of this version did not make for "
            f"{name!r}, so nothing is ended or removed; check the file, and remove its entries by hand."
        )
    return state


def write_state(state: State) -> None:
    """Replace the state file atomically. Raises `WriteError`."""
    write_atomically(state.folder / STATE_FILE, json.dumps(state.to_json(), indent=1), mode=0o600)


def remove_folder(folder: Path) -> None:
    """Remove all files, the state file last, so that the rest is found again after a crash in between."""
    remove(folder, last=STATE_FILE)


@contextmanager
def lock_folder(folder: Path, patience_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of the existing `folder` for a block.

    Raises `ClusterError` if another command still holds it after the patience, and `FileNotFoundError` if that command
    has removed the folder.
    """
    deadline = time.monotonic() + patience_seconds
    with open_folder(folder) as descriptor:
        while not _is_held(descriptor):
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"Another command is making or removing {folder.name!r} at this moment; wait for it to end."
                )
            time.sleep(0.05)
        if not os.path.samestat(os.fstat(descriptor), folder.lstat()):
            # another command has removed the folder, and a third command made a new one
            raise FileNotFoundError(folder)
        yield


def _is_held(file: int) -> bool:
    """True if this process alone holds the lock of the open `file` now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(folder: Path) -> bool:
    """True if a crash left the folder before its state file: empty, or with the unfinished file alone."""
    try:
        with open_folder(folder) as descriptor:
            names = set(os.listdir(descriptor))
    except FileNotFoundError:
        return False
    if all(name == NEW_STATE_FILE or is_temporary(name) for name in names):
        return True
    raise ClusterError(f"Folder {str(folder)!r} exists and holds no state file, so it is not ours; remove it by hand.")

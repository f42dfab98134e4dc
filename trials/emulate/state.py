"""What an emulated cluster is made of, kept in a file that is written before any of it is made."""

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
from trials.emulate.own_folder import is_own, opened, opened_file, remove
from trials.emulate.processes import Process

LONGEST_FOLDER = 40
"""The most bytes of a folder's path: Ray puts sockets some 65 bytes below, and a socket's path may have 107."""

FORMAT = 1

STATE_FILE = "state.json"

NEW_STATE_FILE = "state.json.new"
"""The unfinished file of earlier versions."""

HOLDER = "holder"
"""The role of a process that does nothing but live, so that later commands find the namespaces of the first one."""

CHANGER = "changer"
"""The role of the process that changes links at their times; it lives on when it has nothing more to change."""

_RATE = Figure(1.0, "assumed")
_NOTHING = ClusterSpec((Node("none", "127.0.0.1", 1.0),), (Link("none", "none", _RATE, _RATE),))
"""A stand-in for the cluster of a folder that a crash left without a state file."""


@dataclass(frozen=True)
class State(Noun, always=("complete", "owner")):
    """What `down` may remove: namespaces, cgroups, processes by role (`host0`, `relay`), and the folder.

    `owner` is the process that it was made for and is to go with, if there is one.
    """

    name: str
    cluster: ClusterSpec
    starts_ray: bool
    complete: bool = False
    namespaces: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    processes: dict[str, Process] = field(default_factory=dict)
    dashboard_url: str = ""
    owner: Process | None = None

    @property
    def is_orphaned(self) -> bool:
        """Whether what made it, or was to go with it, is gone; a folder alone has no maker once it can be locked."""
        if not self.namespaces:
            return True
        return self.owner is not None and not self.owner.runs()

    @property
    def holder(self) -> Process | None:
        """The process that keeps the user namespace that all of it is in; None when it was made by root."""
        return self.processes.get(HOLDER)

    @property
    def is_up(self) -> bool:
        """Whether all was made and can be reached; nodes may have died since."""
        needed = [self.processes[role] for role in (HOLDER, CHANGER) if role in self.processes]
        return self.complete and all(process.runs() for process in needed)

    @cached_property
    def folder(self) -> Path:
        return folder_of(self.name)

    @property
    def phases_file(self) -> Path:
        """The file that says when phases began."""
        return self.folder / PHASES_FILE

    def with_process(self, role: str, process: Process) -> State:
        return replace(self, processes={**self.processes, role: process})

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT} | super().to_json()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> State:
        return super().from_json({name: value for name, value in document.items() if name != "format"})


def folder_of(name: str) -> Path:
    """The folder of the emulated cluster `name`. Raises `ClusterError` when there cannot be one."""
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
    """Names of all emulated clusters of this user's that have a state file, up or half-made."""
    folders = [file.parent for file in Path(tempfile.gettempdir()).glob("autosync-*/state.json")]
    return sorted(folder.name.removeprefix("autosync-") for folder in folders if is_own(folder))


def read_state(name: str) -> State | None:
    """The state of `name`; None when there is none.

    Raises `ClusterError` for a folder that is not ours, and for a state with something that was not made for `name`.
    """
    folder = folder_of(name)
    try:
        with opened_file(folder, STATE_FILE) as stream:
            state = State.from_json(parse_json(stream.read(DOCUMENT.size + 1), "It"))
    except FileNotFoundError:
        return State(name, _NOTHING, starts_ray=False) if _is_ours(folder) else None
    except ClusterError:
        raise
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise ClusterError(
            f"File {str(folder / STATE_FILE)!r} is not one that `up` wrote ({cut(repr(error))}); look at it, and "
            "remove it by hand."
        ) from None
    strange = foreign(state) if state.name == name else f"the cluster {state.name!r}"
    if strange:
        raise ClusterError(
            f"File {str(folder / STATE_FILE)!r} lists {strange}, which `up` of this version did not make for {name!r}, "
            "so nothing is ended or removed; look at the file, and remove by hand what it lists."
        )
    return state


def write_state(state: State) -> None:
    """Replace the state file atomically. Raises `WriteError`."""
    write_atomically(state.folder / STATE_FILE, json.dumps(state.to_json(), indent=1), mode=0o600)


def remove_folder(folder: Path) -> None:
    """Remove all files, the state file last, so that after a crash in between the rest is found again."""
    remove(folder, last=STATE_FILE)


@contextmanager
def locked(folder: Path, patience_seconds: float = 0.0) -> Iterator[None]:
    """Hold the existing `folder` alone.

    Raises `ClusterError` if another command still holds it after the patience, and `FileNotFoundError` if that command
    has removed it.
    """
    deadline = time.monotonic() + patience_seconds
    with opened(folder) as descriptor:
        while not _is_held(descriptor):
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"Another command is making or removing {folder.name!r} at this moment; wait for it to end."
                )
            time.sleep(0.05)
        if not os.path.samestat(os.fstat(descriptor), folder.lstat()):
            raise FileNotFoundError(folder)  # another command has removed it, and a third one made a new one
        yield


def _is_held(file: int) -> bool:
    """Whether this process holds the open `file` now, and no other does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(folder: Path) -> bool:
    """Whether there is a folder that a crash left before its state file: empty, or with the unfinished file alone."""
    try:
        with opened(folder) as descriptor:
            names = set(os.listdir(descriptor))
    except FileNotFoundError:
        return False
    if all(name == NEW_STATE_FILE or is_temporary(name) for name in names):
        return True
    raise ClusterError(f"Folder {str(folder)!r} exists and holds no state file, so it is not ours; remove it by hand.")

"""An ordinary user of this machine: the user who runs the tests, or a made-up user if that is root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trials.emulate.as_root import NEW
from trials.emulate.rootless import entering
from trials.emulate.state import folder_of

__all__ = ["SECONDS", "OrdinaryUser", "ordinary_user"]

ROOT = Path(__file__).parents[3]

SECONDS = 20.0
"""Seconds within which all remains of a killed process must be gone."""


@dataclass(frozen=True)
class OrdinaryUser:
    """An ordinary user with a home; `before` are the words that run a command as this user."""

    number: int
    home: Path
    before: tuple[str, ...]

    def start(self, *argv: str, **popen: Any) -> subprocess.Popen[str]:
        """Start `argv` as this user, in the home, with `python` for this interpreter."""
        words = [sys.executable if word == "python" else word for word in argv]
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = os.environ | {"HOME": str(self.home), "PYTHONPATH": paths}
        return subprocess.Popen([*self.before, *words], cwd=self.home, env=env, text=True, **popen)

    def run(self, *argv: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; return its output."""
        process = self.start(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def clusters(self) -> list[Path]:
        """Return the folders of clusters made by this user's searches, and of the cluster with the user's number."""
        folders = [*folder_of("x").parent.glob("autosync-tune*"), folder_of(f"u{self.number}")]
        return [path for path in folders if path.exists() and path.stat().st_uid == self.number]

    def left(self, seconds: float = SECONDS) -> list[str]:
        """Wait until the user has no processes and clusters; return those that remain after `seconds`."""
        deadline = time.monotonic() + seconds
        while (left := [*self.processes(), *map(str, self.clusters())]) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def processes(self) -> list[str]:
        """Return the command lines of the processes of the made-up user; empty for another user."""
        commands = []
        for folder in Path("/proc").iterdir() if self.before else ():
            try:
                if folder.name.isdecimal() and folder.stat().st_uid == self.number:
                    commands.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # the process has ended meanwhile
        return [line for line in commands if line]  # a zombie has none


@contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """An ordinary user with an empty home. Skips if the machine does not let an ordinary user emulate clusters."""
    home = Path(tempfile.mkdtemp(prefix="autosync-home"))
    number = 60_000 + os.getpid() % 5000 if os.geteuid() == 0 else os.geteuid()
    os.chown(home, number, number if os.geteuid() == 0 else -1)
    try:
        user = OrdinaryUser(number, home, _words_before(number, home) if os.geteuid() == 0 else ())
        tried = user.run(*entering(NEW))
        if tried.returncode != 0:
            pytest.skip(f"No ordinary user can emulate a cluster here: {tried.stderr.strip()}")
        yield user
    finally:
        shutil.rmtree(home)


def _words_before(number: int, home: Path) -> tuple[str, ...]:
    """Return the words with which root runs a command as the user, with access to the files of this interpreter."""
    needed = sorted({Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT})
    # If the folder itself is closed, such as one of `mktemp -d`, its entries are shown.
    parts = [part for path in needed for part in ([path] if _is_open(path) else sorted(path.iterdir()))]
    closed = {part: folder for part in parts for folder in part.parents if not _is_open(folder)}
    places = {part: home / "shown" / str(index) for index, part in enumerate(closed)}
    script = [_bound(part, place, part.is_dir()) for part, place in places.items()]
    script += [f"mount -t tmpfs -o mode=755 none {folder}" for folder in set(closed.values())]
    script += [_bound(place, part, part.is_dir()) for part, place in places.items()]
    script.append(f'exec setpriv --reuid={number} --regid={number} --clear-groups -- "$@"')
    return ("unshare", "--mount", "sh", "-ec", "\n".join(script), "sh")


def _is_open(folder: Path) -> bool:
    """True if everyone may enter the folder."""
    return bool(folder.stat().st_mode & 0o001)


def _bound(source: Path, target: Path, is_folder: bool) -> str:
    """Return the line that shows `source` at `target`, which is created."""
    make = "mkdir -p" if is_folder else "touch"
    return f"mkdir -p {target.parent}; {make} {target}; mount --bind {source} {target}"

"""The lifeline of an emulated cluster that was made for one process, its owner: the kernel ends the hosts with the
owner.

The lifeline is a named pipe in the cluster's folder that only the owner holds open for writing. The kernel closes the
pipe when the owner dies, even if the owner's guards are killed too. The first process of every host reads the pipe and
ends when it closes, and with that process the whole host ends. The relay does the same. `Guard` removes the networks
and files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIFELINE = "lifeline"

_held: dict[Path, int] = {}


def hold_lifeline(folder: Path) -> None:
    """Make the lifeline of the cluster in `folder`; hold it until `release_lifeline` or the end of this process."""
    os.mkfifo(folder / LIFELINE, 0o600)
    # A pipe opened for both directions waits for no reader. Programs that this process starts do not inherit it.
    _held[folder] = os.open(folder / LIFELINE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def release_lifeline(folder: Path) -> None:
    """Release the lifeline of the cluster in `folder`; do nothing if there is none."""
    if folder in _held:
        os.close(_held.pop(folder))


@contextmanager
def lifeline(folder: Path) -> Iterator[int | None]:
    """Yield the input for a process that must end with the owner: the input ends when the owner does.

    None without an owner.
    """
    try:
        descriptor = os.open(folder / LIFELINE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        os.set_blocking(descriptor, True)
        yield descriptor
    finally:
        os.close(descriptor)

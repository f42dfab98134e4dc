"""Linux namespaces: entering them, and making those of a host."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["MOUNT", "NETWORK", "PID", "bind", "children_born_in", "enter", "mount_own_proc", "unshare"]

# These are from linux/sched.h and sys/mount.h. Python has os.setns and os.unshare from 3.12 on only, and mount never.
MOUNT, NETWORK, PID = 0x00020000, 0x40000000, 0x20000000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def enter(file: int, kind: int) -> None:
    """Move the calling thread into the namespace behind the open `file`; for `PID`, only children yet to be born."""
    _checked(_libc.setns(file, kind), "setns")


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace; for `PID`, to its next child and those after it."""
    _checked(_libc.unshare(kind), "unshare")


@contextmanager
def children_born_in(pid_namespace: Path | None) -> Iterator[None]:
    """In the block, children that this thread starts live in that pid namespace, or in a new one for None."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if pid_namespace is None:
            unshare(PID)
        else:
            other = os.open(pid_namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                enter(other, PID)
            finally:
                os.close(other)
        try:
            yield
        finally:
            enter(own, PID)
    finally:
        os.close(own)


def bind(source: Path, target: Path) -> None:
    """Show the folder `source` at `target` too, in this mount namespace only."""
    _mount(str(source), str(target), None, _MS_BIND)


def mount_own_proc() -> None:
    """Keep later mounts to this namespace, and show the processes of this pid namespace in /proc.

    Mounts that go elsewhere still go here (slave), so that a network namespace deleted outside is let go of.
    """
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", 0)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    filesystem = kind.encode() if kind else None
    _checked(_libc.mount(source.encode(), target.encode(), filesystem, ctypes.c_ulong(flags), None), f"mount {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

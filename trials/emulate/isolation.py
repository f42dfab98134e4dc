"""Isolates a host: creates and enters namespaces, and mounts the host's own filesystems."""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from trials.signals import ctrl_c_waits

# These are from linux/sched.h, linux/prctl.h and sys/mount.h. Python has os.setns and os.unshare only from 3.12 on, and
# has no mount.
MOUNT, NETWORK, PID, USER = 0x00020000, 0x40000000, 0x20000000, 0x10000000
_PR_SET_PDEATHSIG = 1
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def enter(file: int, kind: int) -> None:
    """Move the calling thread into the namespace behind the open `file`; for `PID`, only its future children."""
    _check(_libc.setns(file, kind), "setns")


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace; for `PID`, give it to its future children."""
    _check(_libc.unshare(kind), "unshare")


def start_in_pid_namespace(
    pid_namespace: Path | None,
    argv: Sequence[str],
    *,
    preexec_fn: Callable[[], None],
    ends_with_us: bool = False,
    **popen: Any,
) -> subprocess.Popen[Any]:
    """Start `argv` in that pid namespace, or as the first process of a new one for None; `popen` are Popen's arguments.

    A new thread enters the namespace, because the root of a user namespace cannot leave it again. The thread ends at
    once. If the process `ends_with_us`, the kernel kills the process when its parent thread is gone, so the thread then
    stays as long as the process lives.
    """
    started: Future[subprocess.Popen[Any]] = Future()

    def prepare() -> None:
        preexec_fn()
        if ends_with_us:
            _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")

    def start() -> None:
        try:
            if pid_namespace is None:
                unshare(PID)
            else:
                enter_at(pid_namespace, PID)
            child = subprocess.Popen(list(argv), preexec_fn=prepare, **popen)
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(child)
        if ends_with_us:
            with suppress(ChildProcessError):  # another thread has taken its exit status
                os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    with ctrl_c_waits():
        threading.Thread(target=start, name="start-inside", daemon=True).start()
        return started.result()


def enter_at(path: Path, kind: int) -> None:
    """Move the calling thread into the namespace at `path`, as `enter` does."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(file, kind)
    finally:
        os.close(file)


def is_of_a_user_namespace() -> bool:
    """True if this process has its rights, if any, only in a user namespace."""
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() != ["0", "0", str(2**32 - 1)]


def bind(source: Path, target: Path) -> None:
    """Show the folder `source` at `target` too, in this mount namespace only."""
    _mount(str(source), str(target), None, _MS_BIND)


def empty(folder: Path) -> None:
    """Make `folder` an empty folder in this mount namespace only, even if it does not exist; its siblings stay
    visible.
    """
    outside = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount("none", str(folder.parent), "tmpfs", 0)
    for entry in Path(f"/proc/self/fd/{outside}").iterdir():
        shown = folder.parent / entry.name
        if entry.is_symlink():
            shown.symlink_to(entry.readlink())
        elif shown != folder:
            shown.mkdir() if entry.is_dir() else shown.touch()
            _mount(str(entry), str(shown), None, _MS_BIND | _MS_REC)
    os.close(outside)
    folder.mkdir()


def mount_own_proc() -> None:
    """Keep later mounts within this namespace, and show the processes of this pid namespace in /proc.

    Unmounts outside still propagate here (slave), so that a network namespace deleted outside is released.
    """
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", 0)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    filesystem = kind.encode() if kind else None
    _check(_libc.mount(source.encode(), target.encode(), filesystem, ctypes.c_ulong(flags), None), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

"""Runs a command as root of this user's own user namespace, where emulated clusters can be made.

The command sees this machine's processes, network and files, and its own named networks. Everything it makes ends with
the last process of the namespace; files belong to the user outside.
"""

import os
import sys
from pathlib import Path

from trials.emulate import isolation as namespaces
from trials.emulate.network import NETNS
from trials.emulate.obstacles import obstacle

NEW = "new"
"""Instead of a process id: make new namespaces."""


def main(place: str, *command: str) -> None:
    """Become `command` in the namespaces of the process with the number `place`, or in new ones for `NEW`.

    Without a command, only try. An obstacle is reported as one line on stderr, with exit status 1.
    """
    folder, is_root = os.getcwd(), os.geteuid() == 0
    try:
        if place == NEW:
            _make()
        else:
            _enter(Path("/proc") / place / "ns")
        os.chdir(folder)
        if not command:
            _try()
    except OSError as error:
        sys.exit(obstacle(error, is_root=is_root))
    if command:
        os.execv(command[0], command)


def _make() -> None:
    maps = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
    namespaces.unshare(namespaces.USER | namespaces.MOUNT)
    for file, text in maps.items():
        (Path("/proc/self") / file).write_text(text, encoding="ascii")
    namespaces.empty(NETNS)


def _enter(folder: Path) -> None:
    """Enter the namespaces of a process.

    The user namespace comes first, because it gives the right to enter the mount namespace. The mount namespace is
    opened before that, because its path is hidden afterwards.
    """
    mounts = os.open(folder / "mnt", os.O_RDONLY | os.O_CLOEXEC)
    namespaces.enter_at(folder / "user", namespaces.USER)
    namespaces.enter(mounts, namespaces.MOUNT)


def _try() -> None:
    """Try in a child process the operations that a host needs."""
    namespaces.unshare(namespaces.NETWORK | namespaces.MOUNT | namespaces.PID)
    child = os.fork()
    if child == 0:
        try:
            namespaces.mount_own_proc()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number:
        raise OSError(number, os.strerror(number), "/proc")

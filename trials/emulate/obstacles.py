"""Finds the setting of a machine that keeps an ordinary user from making namespaces, and the remedy."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
LIMITS = "/proc/sys/user"
SETTINGS = {CLONE: ("0", "1"), APPARMOR: ("1", "0")}
"""Settings by file: the value that forbids user namespaces, and the value that allows them."""


def _read(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return None


def obstacle(error: OSError, read: Callable[[str], str | None] = _read, is_root: bool = False) -> str:
    """Return the cause of `error`, raised when making namespaces, and the remedy, as the end of a sentence.

    `read` returns the text of a file of this machine, or None if there is none. `is_root` is True if root was refused
    because it lacks capabilities.
    """
    if is_root:
        return (
            "root lacks CAP_NET_ADMIN or CAP_SYS_ADMIN here and needs user namespaces instead, and "
            f"{_reason(error, read)}, or give it both, a container by --privileged"
        )
    return f"an ordinary user needs user namespaces, and {_reason(error, read)}, or run it as root"


def _reason(error: OSError, read: Callable[[str], str | None]) -> str:
    if error.filename == "/proc":
        return "/proc cannot be mounted in one, as in most containers; run it outside of the container"
    for file, (forbids, allows) in SETTINGS.items():
        if read(file) == forbids:
            return f"{file} is {forbids}; write {allows} to it"
    for kind in ("user", "mnt", "net", "pid"):
        limit = f"{LIMITS}/max_{kind}_namespaces"
        if read(limit) == "0":
            return f"{limit} is 0; write a thousand to it"
    if error.errno in (errno.ENOSPC, errno.EUSERS):
        return f"there are as many as a limit in {LIMITS} allows; raise it"
    if error.errno in (errno.EINVAL, errno.ENOSYS) and read("/proc/self/uid_map") is None:
        return "this kernel has none; use one that is built with CONFIG_USER_NS"
    if re.search(r"^Seccomp:\s*2$", read("/proc/self/status") or "", re.MULTILINE):
        return "a container's seccomp filter forbids them; give the container --security-opt seccomp=unconfined"
    return f"this machine refuses them ({error}); ask who looks after it whether a security module forbids them"

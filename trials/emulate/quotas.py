"""Processor quotas by control groups."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from autosync.errors import ClusterError

PERIOD_US = 20_000
"""Microseconds over which a quota holds.

The kernel's default of 100 ms would stop a node for longer than a step takes.
"""

EMPTY_SECONDS = 5.0

PROCESSES = "cgroup.procs"

INSTEAD = "omit `cores`, and slow nodes down by a `pace` instead, such as `pace: {scale: 2}`"
"""The end of a message: another way to make a node slow."""


def quota_group(name: str, mounts: str | None = None, memberships: str | None = None) -> Path:
    """Return the path of the group `name`: at the top, or, for an ordinary user, near this process's own group.

    `mounts` and `memberships` are the texts of /proc/self/mountinfo and /proc/self/cgroup. Raises `ClusterError`.
    """
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mounts is None else mounts
    unified = None
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        point = Path(left.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            return _writable(point, "cpu", memberships) / name
        if kind == "cgroup2":
            unified = point
    if unified is None:
        raise ClusterError(
            "A node with fewer cores than the machine needs the CPU controller of control groups, and none is "
            f"mounted; {INSTEAD}."
        )
    return _writable(unified, "", memberships) / name


def group_mounts() -> list[Path]:
    """Return the folders at which this machine's control groups are mounted."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[4]) for line in lines if line.partition(" - ")[2].startswith("cgroup")]


def _writable(top: Path, controller: str, memberships: str | None) -> Path:
    """Return the parent for new groups: `top` or the nearest group around this process that is writable, otherwise
    `top`.

    If all controllers form one tree (`controller` is then empty), a group with quotas must not be below one with
    processes.
    """
    lines = (Path("/proc/self/cgroup").read_text(encoding="utf-8") if memberships is None else memberships).splitlines()
    paths = [path for _, names, path in (line.split(":", 2) for line in lines) if controller in names.split(",")]
    around = [top, *(group for path in paths for group in _around(top / path.lstrip("/"), top, bool(controller)))]
    return next((group for group in around if os.access(group, os.W_OK) and os.access(group / PROCESSES, os.W_OK)), top)


def _around(group: Path, top: Path, itself: bool) -> Iterator[Path]:
    """Yield the groups around `group` up to `top`, from the nearest on, starting with `group` itself if `itself`."""
    return (parent for parent in ([group] if itself else []) + list(group.parents) if parent.is_relative_to(top))


def make_quota(group: Path, cores: float) -> None:
    """Make `group`, whose processes may use `cores` cores together. Raises `ClusterError`."""
    try:
        group.mkdir()
        quota_us = round(cores * PERIOD_US)
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group.parent / "cgroup.subtree_control").write_text("+cpu")
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    except OSError as error:
        raise ClusterError(
            f"A quota of {cores:g} cores cannot be written to {str(group)!r} ({error.strerror}); run where "
            f"control groups can be written, or {INSTEAD}."
        ) from None


def join(group: Path) -> None:
    """Put this process and its future children into `group`."""
    (group / PROCESSES).write_text("0")


def remove_quota(group: Path) -> None:
    """Remove `group` when its last process has gone."""
    deadline = time.monotonic() + EMPTY_SECONDS
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise ClusterError(f"Processes do not leave {str(group)!r}; run `down` again in a while.") from None
            time.sleep(0.02)

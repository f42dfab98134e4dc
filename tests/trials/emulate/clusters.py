"""Clusters for the tests of emulation, and the search for their remains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Link, Node
from trials.emulate.network import NETNS
from trials.emulate.quotas import quota_group
from trials.emulate.requirements import Machine
from trials.emulate.state import folder_of

__all__ = ["LOOPBACKS", "chain", "fewer_cores", "linked", "needs_quotas", "needs_root", "remains", "two_racks"]

needs_root = pytest.mark.skipif(
    Machine.here().lacks() is not None, reason=f"No cluster can be emulated here: {Machine.here().lacks()}."
)


def _writes_quotas() -> bool:
    try:
        return os.access(quota_group("any").parent, os.W_OK)
    except (ClusterError, OSError):
        return False


_WRITES_QUOTAS = _writes_quotas()

needs_quotas = pytest.mark.skipif(not _WRITES_QUOTAS, reason="This user may write to no control group of processors.")


def fewer_cores(cores: float) -> float:
    """Return `cores`, or all of the machine's cores if there are no quotas."""
    return cores if _WRITES_QUOTAS else 1000.0


SOON = Figure(100.0, "assumed")
LOOPBACKS = tuple(Link(node, node, Figure(8.0, "assumed"), SOON) for node in "ab")


def linked(source: str, target: str, mbit_per_s: float, source_of_rate: str = "stated") -> Link:
    return Link(source, target, Figure(mbit_per_s / 1000, source_of_rate), SOON)


def two_racks(cores: float = 1000.0) -> ClusterSpec:
    """Two nodes on two switches: uplinks of 200 and 300 Mbit/s, downlinks of 400 Mbit/s and unlimited, a trunk of 100
    and 50.
    """
    links = (
        *LOOPBACKS,
        linked("a", "left", 200),
        linked("left", "a", 400, "measured"),
        linked("b", "right", 300),
        linked("right", "b", 1000, "assumed"),
        linked("left", "right", 100),
        linked("right", "left", 50),
    )
    nodes = (Node("a", "10.0.0.9", cores), Node("b", "10.0.0.8", 1000.0))
    return ClusterSpec(nodes, links, ("left", "right"))


def chain(*pairs: tuple[str, str], switches: tuple[str, ...]) -> ClusterSpec:
    """Nodes a and b, and links in both directions between `pairs`."""
    links = tuple(linked(*ends, 100) for pair in pairs for ends in (pair, pair[::-1]))
    links = (*LOOPBACKS, *links)
    return ClusterSpec((Node("a", "", 1.0), Node("b", "", 1.0)), links, switches)


def remains(name: str) -> list[str]:
    """Return the names of everything that an emulated cluster has left on this machine."""
    groups = [path for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")) for path in root.glob("autosync-*")]
    names = [str(path) for path in groups if path.name.startswith(f"autosync-{name}-")]
    names += [str(path) for path in NETNS.glob(f"as-{name}-*")]
    names += [str(folder_of(name))] if folder_of(name).exists() else []
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    names += [line for line in mounts if f"autosync-{name}" in line or f"as-{name}-" in line]
    return names + [line for line in _commands() if f"autosync-{name}" in line or f"as-{name}-" in line]


def _commands() -> list[str]:
    """Return the command lines of all other processes."""
    lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                lines.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return lines

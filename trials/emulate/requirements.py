"""Checks the machine's requirements for emulation before anything is made."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autosync.errors import ClusterError
from trials.emulate.network import NETNS

PACKAGE_OF = {"ip": "iproute2", "tc": "iproute2", "sleep": "coreutils"}

NET_ADMIN, SYS_ADMIN = 12, 21
"""Bits of a process's capabilities; root has them, but often not in a container."""


@dataclass(frozen=True)
class Machine:
    """A machine's system, the capabilities of this process (a bit set), and the available tools."""

    platform: str
    capabilities: int
    tools: frozenset[str]

    @classmethod
    def here(cls) -> Machine:
        tools = frozenset(tool for tool in PACKAGE_OF if shutil.which(tool))
        return cls(sys.platform, _capabilities() if sys.platform.startswith("linux") else 0, tools)

    @property
    def has_rights(self) -> bool:
        """True if this process may make namespaces, as root of the machine or of a user namespace."""
        return bool(self.capabilities >> NET_ADMIN & 1 and self.capabilities >> SYS_ADMIN & 1)

    def lacks(self) -> str | None:
        """Return the first missing requirement, in words; None if all are met."""
        if lacking := self.lacks_tool():
            return lacking
        if not self.has_rights:
            return (
                "it needs root to make namespaces, and this program did not call trials.emulate.begin_as_root first; "
                "have it do so, or run it with sudo, in a container with --privileged"
            )
        return None

    def lacks_tool(self) -> str | None:
        """Return the first missing requirement except rights, in words; None if all are met."""
        if not self.platform.startswith("linux"):
            return f"it needs Linux's network namespaces, and this is {self.platform}"
        for tool, package in PACKAGE_OF.items():
            if tool not in self.tools:
                return f"the command {tool!r} is not on the PATH; install {package}"
        return None


def check_machine() -> None:
    """Raise `ClusterError` if this machine misses a requirement."""
    lacking = Machine.here().lacks()
    if lacking:
        raise ClusterError(f"No cluster can be emulated here: {lacking}.")


def check_outside(namespaces: Iterable[str]) -> None:
    """Raise `ClusterError` in a process whose network is one of `namespaces`, because it would end itself half-way."""
    own_network = os.stat("/proc/self/ns/net")
    for namespace in namespaces:
        file = NETNS / namespace
        if file.exists() and os.path.samestat(own_network, file.stat()):
            raise ClusterError("An emulated cluster is made, shown and removed from outside; leave its host first.")


def _capabilities() -> int:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
    return int(match[1], 16) if match else 0

"""The environment in which a trial ran: the host and the versions of what timed it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib import metadata

__all__ = ["Environment"]

PACKAGES = ("autosync", "tensorflow", "keras", "ray", "numpy")


@dataclass(frozen=True)
class Environment:
    """Facts about the process that times steps, kept in every record."""

    host: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Environment:
        """The environment of this process; a package that is not installed (a source checkout, say) is left out."""
        versions = {"python": platform.python_version()}
        for package in PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        system = f"{platform.system()} {platform.release()}"
        return cls(f"{platform.node()} ({platform.machine()}, {os.cpu_count()} cores, {system})", versions)

"""The cluster file that comes with the project, completed for emulated hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

__all__ = ["filled_in"]


def filled_in(file: Path, addresses: Sequence[str], user: str, key: str) -> dict[str, Any]:
    """Return the cluster in `file` with the head at the first address; only entries that users must change are
    changed.
    """
    cluster = yaml.safe_load(file.read_text(encoding="utf-8"))
    cluster["provider"] |= {"head_ip": addresses[0], "worker_ips": list(addresses[1:])}
    cluster["auth"] = {"ssh_user": user, "ssh_private_key": key}
    return cluster

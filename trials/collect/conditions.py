"""What else a collection notes of each trial: how busy the machine was, and which source timed the steps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import autosync.engine
from autosync.spec import ModelSpec

__all__ = ["ENGINE", "Conditions", "engine_digest", "load_average"]

ENGINE = "autosync.engine"
"""The name of the digest of the engine's source in a record's `versions`: the source changes between releases too."""

DIGEST_LENGTH = 12


def load_average() -> float:
    """The number of processes that ran or wanted to, on the whole machine, averaged over the last minute."""
    return os.getloadavg()[0]


def engine_digest(root: Path = Path(autosync.engine.__file__).parent) -> str:
    """The digest of the names and contents of all source files below `root`."""
    found = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()[:DIGEST_LENGTH]


def _at_once() -> None:
    """Wait for nothing."""


@dataclass(frozen=True)
class Conditions:
    """What is noted: `load_average` is asked just before each trial, and before that `settle` is waited for.

    `model` is what records name, where that is to be another profile of it than the back end's.
    """

    engine: str
    load_average: Callable[[], float] = load_average
    model: ModelSpec | None = None
    settle: Callable[[], None] = _at_once

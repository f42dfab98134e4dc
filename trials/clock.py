"""Clocks as objects, a real and a fake one, and facts about the process that reads the clock."""

from __future__ import annotations

import os
import platform
import random
import time
from dataclasses import dataclass, field
from importlib import metadata
from typing import Protocol

from autosync.engine.core.contract import Engine
from autosync.engine.core.registry import engine_named, name_in_records
from autosync.spec.record import ENGINE_IN_VERSIONS
from autosync.version import VERSION

UNIT_SECONDS = 2.0**-30


class Clock(Protocol):
    """A monotonic clock."""

    def start_trial(self, strategy_digest: str) -> None:
        """Note that a trial of this strategy begins."""

    def now(self) -> float:
        """Monotonic seconds, for differences."""
        ...

    def timestamp(self) -> float:
        """Seconds since 1970 (UTC), for records."""
        ...


@dataclass(frozen=True)
class WallClock:
    """The machine's clock."""

    def start_trial(self, strategy_digest: str) -> None:
        """Do nothing: real time needs no preparation."""

    def now(self) -> float:
        return time.perf_counter()

    def timestamp(self) -> float:
        return time.time()


@dataclass
class FakeClock:
    """A clock whose readings advance by times drawn from the strategy's digest: the same strategy gives the same times.

    A whole search can thus be repeated exactly on any machine and back end. Times are multiples of 2**-30 s, so that
    differences are exact and do not depend on the start of a trial.
    """

    base_seconds: float = 0.01
    _units: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))
    _tick: float = 0.01

    def start_trial(self, strategy_digest: str) -> None:
        self._random = random.Random(strategy_digest)
        self._tick = self.base_seconds * (0.5 + self._random.random())

    def now(self) -> float:
        self._units += round(self._tick * (1 + 0.02 * self._random.random()) / UNIT_SECONDS)
        return self._units * UNIT_SECONDS

    def timestamp(self) -> float:
        return self._units * UNIT_SECONDS


LIBRARIES = ("ray", "numpy")
"""Distributions whose versions every record holds, in addition to those of its engine."""


@dataclass(frozen=True)
class Environment:
    """Facts about the process that times steps, stored in every record."""

    host: str = ""
    framework: str | None = None
    """The name of the engine that times the steps; None for the default engine."""
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls, engine: Engine | None = None) -> Environment:
        """Return the environment of this process, which runs `engine` (by default the engine of records that name
        none).

        Libraries that are not installed are omitted.
        """
        engine = engine or engine_named()
        versions = {
            "python": platform.python_version(),
            ENGINE_IN_VERSIONS: str(engine.version),
            "autosync": VERSION,
        }
        for package in (*engine.packages, *LIBRARIES):
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        system = f"{platform.system()} {platform.release()}"
        return cls(
            f"{platform.node()} ({platform.machine()}, {os.cpu_count()} cores, {system})",
            name_in_records(engine.name),
            versions,
        )

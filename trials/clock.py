"""Time as an object one is given: the wall's, or one made up for a test; and facts on the process that reads it."""

from __future__ import annotations

import os
import platform
import random
import time
from dataclasses import dataclass, field
from importlib import metadata
from typing import Protocol

from autosync.engine.version import ENGINE
from autosync.spec.record import ENGINE_IN_VERSIONS
from autosync.version import VERSION

UNIT_SECONDS = 2.0**-30


class Clock(Protocol):
    """A clock, whose seconds only grow."""

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
    """A clock on which every reading takes a time drawn from the strategy's digest: same strategy, same times.

    It lets a whole search be repeated exactly, on any machine and back end. Times are whole multiples of
    2**-30 s, so that differences are exact and do not depend on when a trial begins.
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


LIBRARIES = ("tensorflow", "keras", "ray", "numpy")


@dataclass(frozen=True)
class Environment:
    """Facts about the process that times steps, kept in every record."""

    host: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Environment:
        """The environment of this process, without libraries that are not installed."""
        versions = {
            "python": platform.python_version(),
            ENGINE_IN_VERSIONS: str(ENGINE),
            "autosync": VERSION,
        }
        for package in LIBRARIES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        system = f"{platform.system()} {platform.release()}"
        return cls(f"{platform.node()} ({platform.machine()}, {os.cpu_count()} cores, {system})", versions)

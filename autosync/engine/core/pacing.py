"""Paced passes: their lengths, the release times of their gradients, and the waits in a worker's process.

A pass follows absolute deadlines, so that a late release does not delay the next one. Between two releases a worker
sleeps, and after a sleep, code runs several times slower because the caches are cold. Therefore a release is one call
with one number, all times of a pass are computed when the pass begins, and the last wait builds the pass's report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.errors import SpecError
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, Decision, Device, ModelSpec, Pace
from autosync.spec.pace import reads, releases


@dataclass(frozen=True)
class Waits:
    """The names under which a worker offers `begin_pass`, `wait_until` and `end_pass`."""

    begin: str
    until: str
    end: str


def begin_pass(seconds: FloatArray, turn: Any, fractions: FloatArray, *delays: FloatArray) -> list[FloatArray]:
    """Begin a pass of `seconds[turn]`, after `delays[turn]` if delays are given.

    Returns the length of the pass in seconds, and the time of each release by this process's clock: the given fractions
    of the pass after the pass's beginning.
    """
    length, begin = seconds.item(int(turn)), time.perf_counter()
    begin += sum(delay.item(int(turn)) for delay in delays)
    return [np.array(length), *(np.array(begin + length * fraction) for fraction in fractions.tolist())]


def wait_until(due: FloatArray) -> FloatArray:
    """Wait until the time `due`; return the lateness in seconds."""
    return np.array(_wait(due.item()))


def end_pass(due: FloatArray, loss: Any, seconds: FloatArray, *late: FloatArray) -> FloatArray:
    """Wait for the last release; return the report of the pass: its loss, its seconds, and each release's lateness."""
    last = _wait(due.item())
    return np.array((float(loss), seconds.item(), *(release.item() for release in late), last))


def _wait(due: float) -> float:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)
    return time.perf_counter() - due


@dataclass(frozen=True)
class Moment:
    """The variables, by number, that a pass reads or releases together, `fraction` of the pass after its beginning."""

    fraction: float
    variables: tuple[int, ...]


@dataclass(frozen=True)
class PassMoments:
    """The moments of a paced pass, in the order of time."""

    reads: tuple[Moment, ...] = ()
    releases: tuple[Moment, ...] = ()

    @classmethod
    def of(cls, model: ModelSpec) -> PassMoments:
        """The moments of a model's pass, by the numbers of its variables. Raises `SpecError` for a model without a
        profile."""
        profile = model.pace_profile
        if profile is None:
            raise SpecError(
                f"Paced passes need a model's profile, but {model.name!r} has none; capture the model again."
            )
        numbers = {variable.name: number for number, variable in enumerate(model.variables)}

        def moments_of(times: Iterable[tuple[float, Sequence[str]]]) -> tuple[Moment, ...]:
            return tuple(Moment(time, tuple(numbers[name] for name in names)) for time, names in times)

        return cls(moments_of(reads(profile)), moments_of(releases(profile)))


@dataclass(frozen=True)
class Pacing:
    """The pacing of the passes of a strategy's replicas."""

    model: ModelSpec
    devices: tuple[str, ...]
    """The replicas' devices."""
    paces: tuple[Pace, ...]
    """The pace of each replica's node."""
    waits: tuple[Waits, ...]
    """The waits that each replica's worker offers."""
    moments: PassMoments
    exchange: Callable[[Decision], float] | None = None
    """Seconds of the exchange by decision. If given, time is virtual: nothing waits, and a step takes as long as the
    passes that count would, plus these seconds. None for real time."""

    @classmethod
    def of(
        cls,
        devices: Sequence[str],
        model: ModelSpec,
        cluster: ClusterSpec,
        waits: Sequence[Waits],
        exchange: Callable[[Decision], float] | None = None,
    ) -> Pacing:
        """Build the pacing of replicas on `devices`. Raises `SpecError` for a model without a profile."""
        paces = [cluster.node(Device.parse(device).node).pace for device in devices]
        return cls(
            model,
            tuple(devices),
            tuple(pace for pace in paces if pace is not None),
            tuple(waits),
            PassMoments.of(model),
            exchange,
        )

    @property
    def releases(self) -> tuple[Moment, ...]:
        """The releases of a pass, in the order of time."""
        return self.moments.releases

    @property
    def held(self) -> bool:
        """Whether passes are real and their gradients are held until their release times."""
        return self.paces[0].numbers == "held"

    @property
    def rates(self) -> tuple[float | None, ...]:
        """The examples a second that arrive at each replica; None if a replica has no stream."""
        return tuple(pace.stream for pace in self.paces)

    def seconds(self, seed: int, step: int, shares: Sequence[float] | None = None) -> FloatArray:
        """Seconds of every replica's pass, float64 (replicas,); for `shares` see `Pace.seconds`."""
        profile = self.model.pace_profile
        assert profile is not None
        replicas = zip(self.paces, self.devices, shares or [1.0] * len(self.devices), strict=True)
        return np.array([pace.seconds(profile, seed, step, device, share) for pace, device, share in replicas])

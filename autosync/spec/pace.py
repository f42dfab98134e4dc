"""The pace of a node whose passes are waited for: how long each takes, a pure function of seed and step."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import Any

from autosync.errors import SpecError
from autosync.spec.codec import every, known_fields, optional, required
from autosync.spec.kept import TIMES, kind_of
from autosync.spec.profile import ModelProfile
from autosync.spec.quoting import quoted

NUMBERS = ("recorded", "held")
"""What a paced pass gives: gradients of real steps, replayed, or real gradients, held until their time."""

KINDS = tuple(dict.fromkeys(kind_of(time, numbers) for time in TIMES for numbers in NUMBERS))
"""The kinds of times that records may have; see `RuntimeRecord.kind`."""

MOST_SECONDS, MOST_FACTOR, MOST_DWELL, MOST_TRACED, MOST_STREAMED = 3600.0, 1e6, 10**6, 2000, 1e9
"""Limits of paces; of a trace's factors because a node's pace is in one argument of `ray start`, of 128 KiB at most."""

TRAINS_NOTHING = "Recorded gradients repeat and train nothing; let the paced nodes' numbers be held."
"""Why a step on recorded numbers takes no batches and has no discipline."""

MOST_RELEASES = 12
"""The most times in a pass at which gradients are released: each costs a core time, most where it wakes a process."""

NEAR = 0.01
"""Gradients that are ready within such a share of the backward pass are released together: they save a release each."""


def _number(value: float, least: float, most: float, what: str) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise SpecError(f"{what} is from {least:g} to {most:g}, not {quoted(value)}.")


@dataclass(frozen=True)
class Slow:
    """Spells in which a node takes `factor` times as long: each of `dwell` steps, and a share `probability` of all.

    Time is cut into spells of `dwell` steps, which begin at another step for each node; each is slow with that
    probability. Nodes that name the same `together`, such as their rack, are slow at the same steps.
    """

    probability: float
    dwell: int
    factor: float
    together: str = ""

    def __post_init__(self) -> None:
        _number(self.probability, 0.0, 1.0, "The probability of a slow spell")
        _number(self.dwell, 1, MOST_DWELL, "The dwell of a slow spell in steps")
        _number(self.factor, 1 / MOST_FACTOR, MOST_FACTOR, "The factor of a slow spell")

    def at(self, seed: int, step: int, node: str) -> float:
        """The factor of `step`, which is 1 outside of slow spells."""
        who = f"together {self.together}" if self.together else f"node {node}"
        spell = (step + int(_uniform(seed, who, "phase", 0) * self.dwell)) // self.dwell
        return self.factor if _uniform(seed, who, "slow", spell) < self.probability else 1.0

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "probability": float(self.probability),
            "dwell": self.dwell,
            "factor": float(self.factor),
        }
        return document | ({"together": self.together} if self.together else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Slow:
        what = "A slow spell"
        known_fields(document, ("probability", "dwell", "factor", "together"), what)
        return cls(
            required(document, "probability", float, what),
            required(document, "dwell", int, what),
            required(document, "factor", float, what),
            optional(document, "together", str, what) or "",
        )


@dataclass(frozen=True)
class Spread:
    """How passes vary: factors of a log-normal jitter (its sigma; the median is 1), of slow spells and of a trace.

    A `trace` is recorded factors, a step each, which begin anew after the last one.
    """

    lognormal: float = 0.0
    slow: Slow | None = None
    trace: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _number(self.lognormal, 0.0, 3.0, "The sigma of a log-normal spread")
        if len(self.trace) > MOST_TRACED:
            raise SpecError(f"A pace's trace has at most {MOST_TRACED} factors, not {len(self.trace)}.")
        for each in self.trace:
            _number(each, 1 / MOST_FACTOR, MOST_FACTOR, "A factor of a pace's trace")

    def at(self, seed: int, step: int, device: str) -> float:
        """The factor of `step` on `device`, such as `node0/cpu:1`; devices of a node share its slow spells."""
        factor = self.trace[step % len(self.trace)] if self.trace else 1.0
        if self.slow is not None:
            factor *= self.slow.at(seed, step, device.rpartition("/")[0])
        if self.lognormal:
            factor *= math.exp(self.lognormal * NormalDist().inv_cdf(_uniform(seed, device, "jitter", step)))
        return factor

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"lognormal": float(self.lognormal)} if self.lognormal else {}
        document |= {"slow": self.slow.to_json()} if self.slow else {}
        return document | ({"trace": [float(each) for each in self.trace]} if self.trace else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        what = "A spread"
        known_fields(document, ("lognormal", "slow", "trace"), what)
        slow = optional(document, "slow", dict, what)
        return cls(
            optional(document, "lognormal", float, what) or 0.0,
            None if slow is None else Slow.from_json(slow),
            every(document, "trace", float, what) if "trace" in document else (),
        )


STEADY = Spread()


@dataclass(frozen=True)
class Pace:
    """A replica's passes take `fixed_seconds`, and in proportion to its examples `batch_seconds` and `scale` x its
    profile's seconds, as for a whole batch; times a spread.

    They are waited for, and use next to no processor where `numbers` are *recorded*; see `NUMBERS`. To each replica in
    training examples come in a `stream` of so many a second, if there is one, and a pass begins once its own are there.
    """

    scale: float = 1.0
    fixed_seconds: float = 0.0
    numbers: str = "recorded"
    spread: Spread = STEADY
    stream: float | None = None
    batch_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.stream is not None:
            _number(self.stream, 1e-3, MOST_STREAMED, "A stream's examples a second")
        _number(self.scale, 0.0, MOST_FACTOR, "The scale of a pace")
        _number(self.fixed_seconds, 0.0, MOST_SECONDS, "A pace's fixed time in seconds")
        _number(self.batch_seconds, 0.0, MOST_SECONDS, "A pace's time for a batch in seconds")
        if not self.scale + self.fixed_seconds + self.batch_seconds > 0:
            raise SpecError("A pace has a scale, a fixed time or a time for a batch above zero; all are 0.")
        if self.numbers not in NUMBERS:
            raise SpecError(f"The numbers of a pace are {' or '.join(NUMBERS)}, not {quoted(self.numbers)}.")

    def seconds(self, profile: ModelProfile, seed: int, step: int, device: str, share: float = 1.0) -> float:
        """Seconds of both passes of `step` on `device`; `share` is how many examples it takes, over the batch size.

        The same in every process: what varies is drawn by hashing seed, step and who draws.
        """
        batch = self.batch_seconds + self.scale * (profile.forward_seconds + profile.backward_seconds)
        return (self.fixed_seconds + batch * share) * self.spread.at(seed, step, device)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "scale": float(self.scale),
            "fixed_seconds": float(self.fixed_seconds),
            "numbers": self.numbers,
        }
        document |= {"batch_seconds": float(self.batch_seconds)} if self.batch_seconds else {}
        document |= {"spread": self.spread.to_json()} if self.spread != STEADY else {}
        return document | ({} if self.stream is None else {"stream": float(self.stream)})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Pace:
        what = "A pace"
        known_fields(document, ("scale", "fixed_seconds", "batch_seconds", "numbers", "spread", "stream"), what)
        spread = optional(document, "spread", dict, what)
        return cls(
            required(document, "scale", float, what),
            required(document, "fixed_seconds", float, what),
            required(document, "numbers", str, what),
            STEADY if spread is None else Spread.from_json(spread),
            optional(document, "stream", float, what),
            optional(document, "batch_seconds", float, what) or 0.0,
        )


def releases(profile: ModelProfile, most: int = MOST_RELEASES) -> tuple[tuple[float, tuple[str, ...]], ...]:
    """When in a pass gradients are released, and the variables of each release: at most `most`, in order of time.

    A time is a fraction of both passes, the last one 1. Those that are `NEAR` are put together; of all ways to put more
    together it is one in which the gradient that waits longest for its release waits least.
    """
    ordered = sorted(profile.ready, key=lambda name: profile.ready[name])
    ready = [profile.ready[name] for name in ordered]
    waits = sorted({later - earlier for later in ready for earlier in ready if later >= earlier})
    longest = max(NEAR, waits[bisect_left(waits, True, key=lambda each: len(_begins(ready, each)) <= most)])
    forward = profile.forward_seconds / (profile.forward_seconds + profile.backward_seconds)
    begins = [*_begins(ready, longest), len(ready)]
    groups = [tuple(ordered[begin:end]) for begin, end in pairwise(begins)]
    times = [forward + (1 - forward) * profile.ready[group[-1]] for group in groups]
    return tuple(zip([*times[:-1], 1.0], groups, strict=True))


def _begins(ready: list[float], longest: float) -> list[int]:
    """Where groups of the sorted `ready` begin, each as large as it can be with nobody waiting over `longest`."""
    begins: list[int] = []
    for number, each in enumerate(ready):
        if not begins or each - ready[begins[-1]] > longest:
            begins.append(number)
    return begins


def _uniform(seed: int, who: str, what: str, number: int) -> float:
    """A number between 0 and 1, neither of them, that follows from what is given alone."""
    drawn = hashlib.blake2b(f"{seed}\n{who}\n{what}\n{number}".encode(), digest_size=8).digest()
    return ((int.from_bytes(drawn, "big") >> 12) + 0.5) / 2**52

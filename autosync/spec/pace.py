"""The pace of a node: durations of its passes, a pure function of seed and step, which the node waits out."""

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
from autosync.spec.codec import check_fields, read_list, read_optional, read_required
from autosync.spec.pace_report import TIMES, kind_of
from autosync.spec.profile import ModelProfile
from autosync.spec.quoting import quote

NUMBERS = ("recorded", "held")
"""The results of a paced pass: replayed gradients of earlier real steps, or real gradients held until their time."""

KINDS = tuple(dict.fromkeys(kind_of(time, numbers) for time in TIMES for numbers in NUMBERS))
"""The kinds of times that records may have; see `RuntimeRecord.kind`."""

MOST_SECONDS, MOST_FACTOR, MOST_DWELL, MOST_TRACED, MOST_STREAMED = 3600.0, 1e6, 10**6, 2000, 1e9
"""Limits of paces. A trace's length is limited because one argument of `ray start`, at most 128 KiB, holds the pace."""

TRAINS_NOTHING = "Recorded gradients repeat and train nothing; let the paced nodes' numbers be held."
"""The reason why a step on recorded numbers takes no batches and has no discipline."""

MOST_RELEASES = 12
"""The most releases of gradients in a pass. A release costs core time, most of all if it wakes a process."""

NEAR = 0.01
"""Gradients ready within this share of the backward pass share a release, which saves a release per gradient."""


def _number(value: float, least: float, most: float, what: str) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise SpecError(f"{what} is from {least:g} to {most:g}, not {quote(value)}.")


@dataclass(frozen=True)
class Slow:
    """Spells of `dwell` steps in which a node takes `factor` times as long; a spell is slow with `probability`.

    Steps are divided into spells of `dwell` steps, shifted for each node. Nodes with the same `together`, such as the
    name of their rack, are slow in the same steps.
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
        """The factor of `step`: 1 outside slow spells."""
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
        check_fields(document, ("probability", "dwell", "factor", "together"), what)
        return cls(
            read_required(document, "probability", float, what),
            read_required(document, "dwell", int, what),
            read_required(document, "factor", float, what),
            read_optional(document, "together", str, what) or "",
        )


@dataclass(frozen=True)
class Spread:
    """Variation of passes: the product of log-normal jitter (`lognormal` is sigma; the median is 1), slow spells and a
    trace.

    A `trace` has a recorded factor per step and repeats from its start after its end.
    """

    lognormal: float = 0.0
    slow: Slow | None = None
    trace: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _number(self.lognormal, 0.0, 3.0, "The sigma of a log-normal spread")
        if len(self.trace) > MOST_TRACED:
            raise SpecError(f"A pace's trace has at most {MOST_TRACED} factors, not {len(self.trace)}.")
        for factor in self.trace:
            _number(factor, 1 / MOST_FACTOR, MOST_FACTOR, "A factor of a pace's trace")

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
        return document | ({"trace": [float(factor) for factor in self.trace]} if self.trace else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Spread:
        what = "A spread"
        check_fields(document, ("lognormal", "slow", "trace"), what)
        slow = read_optional(document, "slow", dict, what)
        return cls(
            read_optional(document, "lognormal", float, what) or 0.0,
            None if slow is None else Slow.from_json(slow),
            read_list(document, "trace", float, what) if "trace" in document else (),
        )


STEADY = Spread()


@dataclass(frozen=True)
class Pace:
    """How long a replica's forward and backward pass take together.

    Seconds = (`fixed_seconds` + (`batch_seconds` + `scale` x the profile's seconds) x share of a batch) x spread.
    The replica waits until the time is over. If `numbers` are *recorded*, the passes use almost no processor time.
    """

    scale: float = 1.0
    """Factor on the model profile's seconds for a whole batch."""
    fixed_seconds: float = 0.0
    """Seconds of a step that do not depend on the number of examples."""
    numbers: str = "recorded"
    """The results of the passes; see `NUMBERS`."""
    spread: Spread = STEADY
    """Variation from step to step."""
    stream: float | None = None
    """Training examples per second that arrive at a replica; a pass begins when its examples have arrived. None if all
    examples are there from the start."""
    batch_seconds: float = 0.0
    """Seconds for a whole batch in addition to the profile's seconds."""

    def __post_init__(self) -> None:
        if self.stream is not None:
            _number(self.stream, 1e-3, MOST_STREAMED, "A stream's examples a second")
        _number(self.scale, 0.0, MOST_FACTOR, "The scale of a pace")
        _number(self.fixed_seconds, 0.0, MOST_SECONDS, "A pace's fixed time in seconds")
        _number(self.batch_seconds, 0.0, MOST_SECONDS, "A pace's time for a batch in seconds")
        if not self.scale + self.fixed_seconds + self.batch_seconds > 0:
            raise SpecError("A pace has a scale, a fixed time or a time for a batch above zero; all are 0.")
        if self.numbers not in NUMBERS:
            raise SpecError(f"The numbers of a pace are {' or '.join(NUMBERS)}, not {quote(self.numbers)}.")

    def seconds(self, profile: ModelProfile, seed: int, step: int, device: str, share: float = 1.0) -> float:
        """Seconds of both passes of `step` on `device`; `share` is the replica's examples over the batch size.

        All processes get the same value, because random factors are hashes of seed, step and device.
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
        check_fields(document, ("scale", "fixed_seconds", "batch_seconds", "numbers", "spread", "stream"), what)
        spread = read_optional(document, "spread", dict, what)
        return cls(
            read_required(document, "scale", float, what),
            read_required(document, "fixed_seconds", float, what),
            read_required(document, "numbers", str, what),
            STEADY if spread is None else Spread.from_json(spread),
            read_optional(document, "stream", float, what),
            read_optional(document, "batch_seconds", float, what) or 0.0,
        )


def reads(profile: ModelProfile, most: int = MOST_RELEASES) -> tuple[tuple[float, tuple[str, ...]], ...]:
    """Return the times of at most `most` reads in a pass, with the variables of each read, in order of time.

    A time is a fraction of both passes together, and the time of the earliest of its variables; they are grouped as by
    `releases`. Without measured times, a variable is read as long after the pass begins as its gradient is ready before
    the pass ends, in shares of the forward and the backward pass.
    """
    times = profile.read or {name: 1 - ready for name, ready in profile.ready.items()}
    forward = profile.forward_seconds / (profile.forward_seconds + profile.backward_seconds)
    return tuple((forward * times[group[0]], group) for group in _groups(times, most))


def releases(profile: ModelProfile, most: int = MOST_RELEASES) -> tuple[tuple[float, tuple[str, ...]], ...]:
    """Return the times of at most `most` releases in a pass, with the variables of each release, in order of time.

    A time is a fraction of both passes together; the last time is 1. Gradients within `NEAR` share a release. If
    there are still too many releases, gradients are grouped so that the longest wait for a release is minimal.
    """
    forward = profile.forward_seconds / (profile.forward_seconds + profile.backward_seconds)
    groups = _groups(profile.ready, most)
    times = [forward + (1 - forward) * profile.ready[group[-1]] for group in groups]
    return tuple(zip([*times[:-1], 1.0], groups, strict=True))


def _groups(times: Mapping[str, float], most: int) -> list[tuple[str, ...]]:
    """At most `most` groups of names with consecutive times, such that the longest difference in a group is minimal."""
    ordered = sorted(times, key=lambda name: times[name])
    fractions = [times[name] for name in ordered]
    waits = sorted({later - earlier for later in fractions for earlier in fractions if later >= earlier})
    longest = max(NEAR, waits[bisect_left(waits, True, key=lambda wait: len(_begins(fractions, wait)) <= most)])
    begins = [*_begins(fractions, longest), len(fractions)]
    return [tuple(ordered[begin:end]) for begin, end in pairwise(begins)]


def _begins(ready: list[float], longest: float) -> list[int]:
    """The first index of each group of the sorted `ready`; groups are as large as waits of at most `longest` allow."""
    begins: list[int] = []
    for number, fraction in enumerate(ready):
        if not begins or fraction - ready[begins[-1]] > longest:
            begins.append(number)
    return begins


def _uniform(seed: int, who: str, what: str, number: int) -> float:
    """A number strictly between 0 and 1 that depends on the arguments only."""
    drawn = hashlib.blake2b(f"{seed}\n{who}\n{what}\n{number}".encode(), digest_size=8).digest()
    return ((int.from_bytes(drawn, "big") >> 12) + 0.5) / 2**52

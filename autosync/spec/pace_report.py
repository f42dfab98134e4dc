"""How closely a paced trial followed its schedule: requested and achieved pass times, and lateness of gradients."""

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quote

TIMES = ("real", "paced", "virtual")
"""Kinds of step durations: of real passes, of passes whose paced time was waited out, or computed without waiting."""


def kind_of(time: str, numbers: str, framework: str | None = None) -> str:
    """The kind of seconds in a word, such as *real* or *paced-recorded*, after the framework if a record names one.

    Seconds of different kinds are never compared.
    """
    kind = "real" if time == "real" else f"{time}-{numbers}"
    return kind if framework is None else f"{framework}-{kind}"


def split_kind(kind: str) -> tuple[str | None, str]:
    """The framework in a word of `kind_of`, and the word without it."""
    first, _, rest = kind.partition("-")
    return (None, kind) if first in TIMES else (first, rest)


MOST_LATE_SHARE = 0.05
"""The largest lateness of the median release, as a share of the pass, with which a trial counts."""


@dataclass(frozen=True)
class KeptPace(Noun, what="A kept pace"):
    """Figures of the timed steps of a paced trial. Tuples have an entry per replica."""

    time: str
    """*paced* or *virtual*."""
    numbers: str
    """The kind of gradients: *recorded* or *held*."""
    recorded_steps: int
    """Number of real steps whose gradients were replayed; 0 if none were."""
    requested_seconds: tuple[float, ...]
    """Median requested duration of a pass."""
    achieved_seconds: tuple[float, ...]
    """Median achieved duration of a pass."""
    late_p50_seconds: tuple[float, ...]
    """Median lateness of releases of gradients after their deadlines."""
    late_p99_seconds: tuple[float, ...]
    """99th percentile of the lateness of releases."""

    def __post_init__(self) -> None:
        if self.time not in TIMES[1:]:
            raise SpecError(f"A pace's time is {' or '.join(TIMES[1:])}, not {quote(self.time)}.")
        figures = [getattr(self, name) for name in _PER_REPLICA]
        if len({len(values) for values in figures}) != 1:
            raise SpecError(
                f"A kept pace has each figure of every replica, not {', '.join(str(len(f)) for f in figures)}."
            )
        if not all(math.isfinite(value) and value >= 0 for values in figures for value in values):
            raise SpecError("The figures of a kept pace are finite and at least 0.")
        if not all(seconds > 0 for seconds in self.requested_seconds):
            raise SpecError(f"Passes are requested to take over 0 s, not {quote(self.requested_seconds)}.")

    @property
    def fault(self) -> str | None:
        """The reason why a trial with this lateness does not count; None if the trial counts."""
        late = zip(self.late_p50_seconds, self.requested_seconds, strict=True)
        share, replica = max(((p50 / seconds, number) for number, (p50, seconds) in enumerate(late)), default=(0.0, 0))
        if share <= MOST_LATE_SHARE:
            return None
        return (
            f"The pace could not be kept: half of replica {replica}'s releases were over "
            f"{self.late_p50_seconds[replica] * 1e3:.1f} ms late, {share:.0%} of its pass of "
            f"{self.requested_seconds[replica] * 1e3:.1f} ms, and {MOST_LATE_SHARE:.0%} are allowed; leave the machine "
            "to the trial, or pace it slower."
        )


_PER_REPLICA = ("requested_seconds", "achieved_seconds", "late_p50_seconds", "late_p99_seconds")

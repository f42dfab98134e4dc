"""How well a trial's pace was kept: what its passes were to take, what they took, and how late gradients came."""

import math
from dataclasses import dataclass

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.quoting import quoted

TIMES = ("real", "paced", "virtual")
"""What the seconds of a step are: of real passes, of passes that were waited for, or worked out without waiting."""


def kind_of(time: str, numbers: str) -> str:
    """What seconds are, in a word: *real*, or as *paced-recorded*; those of different kinds are never compared."""
    return "real" if time == "real" else f"{time}-{numbers}"


MOST_LATE_SHARE = 0.05
"""The share of a pass that the median release may be late by, for a trial to count."""


@dataclass(frozen=True)
class KeptPace(Noun, what="A kept pace"):
    """Figures of the timed steps of a paced trial, one for each replica, in seconds.

    `requested_seconds` and `achieved_seconds` are medians of its passes; `late_p50_seconds` and `late_p99_seconds` are
    over all releases of gradients, each against its deadline. `recorded_steps` real steps were replayed (0: none).
    """

    time: str
    numbers: str
    recorded_steps: int
    requested_seconds: tuple[float, ...]
    achieved_seconds: tuple[float, ...]
    late_p50_seconds: tuple[float, ...]
    late_p99_seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.time not in TIMES[1:]:
            raise SpecError(f"A pace's time is {' or '.join(TIMES[1:])}, not {quoted(self.time)}.")
        figures = [getattr(self, name) for name in _PER_REPLICA]
        if len({len(each) for each in figures}) != 1:
            raise SpecError(
                f"A kept pace has each figure of every replica, not {', '.join(str(len(f)) for f in figures)}."
            )
        if not all(math.isfinite(value) and value >= 0 for each in figures for value in each):
            raise SpecError("The figures of a kept pace are finite and at least 0.")
        if not all(seconds > 0 for seconds in self.requested_seconds):
            raise SpecError(f"Passes are requested to take over 0 s, not {quoted(self.requested_seconds)}.")

    @property
    def fault(self) -> str | None:
        """Why a trial whose pace was kept like this does not count; None if it does."""
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

"""The rounds after which finals are judged, and the chance of an error spent at each look.

Judging after every round until a gain seems proven would prove most gains by luck. So the chance of an error is spent
in parts: a little at each early look, and the rest at the last one (alpha spending; Lan, DeMets: "Discrete sequential
boundaries for clinical trials", Biometrika, 1983). The parts add up to the whole, so their intervals hold together even
though looks share rounds (Bonferroni). If a time budget ends the finals, the look at that moment is the last one,
because the duration of trials is independent of the ratio of their steps.
"""

import math
from dataclasses import dataclass
from typing import final

from autosync.stats.paired import ERROR, LEAST_ROUNDS

EARLY = 0.1
"""The part of the chance of an error that each early look spends."""

TIMES = (0.5, 2 / 3, 1.0, 1.5, 2.0, 3.0)
"""The rounds of each look, as multiples of the requested rounds."""


@final
@dataclass(frozen=True)
class Looks:
    """The looks of finals with `rounds` requested rounds. All finalists run these; the best two run up to `most`."""

    rounds: int

    @property
    def most(self) -> int:
        return self._after[-1]

    @property
    def _after(self) -> tuple[int, ...]:
        return tuple(sorted({max(LEAST_ROUNDS, math.ceil(times * self.rounds)) for times in TIMES}))

    def error(self, done: int, is_last: bool) -> float | None:
        """Return the chance of an error at the look after `done` rounds; None if no look is due then.

        `is_last` ends the finals at this look although more rounds were requested.
        """
        earlier = sum(1 for rounds in self._after if rounds < done)
        if is_last or done == self.most:
            return ERROR * (1 - EARLY * min(earlier, len(self._after) - 1))
        return ERROR * EARLY if done in self._after else None

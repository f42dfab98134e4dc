"""Keeps more of a gradient while gradients change: Accordion (Agarwal et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_optional, read_required


@final
class WhileGradientsChange:
    """Keeps the first of `count` ratios while gradients change, and the last one while their norms are steady.

    Every `steps` steps form a spell. Gradients change if the mean norm of a spell differs from that of the spell before
    by at least the share `changes` of the latter. Before two spells are complete, the first ratio is kept.
    """

    def __init__(self, count: int, steps: int, changes: float) -> None:
        self._last = count - 1
        self._steps = steps
        self._changes = changes
        self._ratio = 0
        self._done = 0
        self._sum = 0.0
        self._before: float | None = None

    def decide(self) -> Decision:
        return Decision(ratio=self._ratio, norms=True)

    def observe(self, report: StepReport) -> bool:
        self._done += 1
        self._sum += math.sqrt(max(report.mean_square_norm or 0.0, 0.0))
        if self._done % self._steps == 0:
            now, before = self._sum, self._before
            # A norm that is not a number, or that follows a zero or missing norm, is a change too.
            steady = before is not None and before > 0 and abs(now - before) / before < self._changes
            self._ratio = self._last if steady else 0
            self._before, self._sum = now if math.isfinite(now) else None, 0.0
        return False

    def state(self) -> dict[str, Any]:
        of_now = self._sum if math.isfinite(self._sum) else None
        return {"ratio": self._ratio, "done": self._done, "sum": of_now, "before": self._before}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of changing gradients"
        check_fields(state, ("ratio", "done", "sum", "before"), what)
        ratio, done = (read_required(state, name, int, what) for name in ("ratio", "done"))
        of_now, before = (read_optional(state, name, float, what) for name in ("sum", "before"))
        if done < 0 or ratio not in (0, self._last) or not all(norm is None or norm >= 0 for norm in (of_now, before)):
            raise SpecError(f"{what} has the ratio 0 or {self._last}, and norms and a step count of at least 0.")
        self._ratio, self._done, self._before = ratio, done, before
        self._sum = math.nan if of_now is None else of_now

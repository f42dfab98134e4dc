"""Keeps a shrinking part of gradients at the start: the warm-up of deep gradient compression (Lin et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_required


@final
class WarmUp:
    """Keeps each of `count` ratios for `steps` steps in turn, and the last one from then on."""

    def __init__(self, count: int, steps: int) -> None:
        self._last = count - 1
        self._steps = steps
        self._done = 0

    def decide(self) -> Decision:
        return Decision(ratio=min(self._done // self._steps, self._last))

    def observe(self, _report: StepReport) -> bool:
        self._done += 1
        return False

    def state(self) -> dict[str, Any]:
        return {"done": self._done}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a warm-up"
        check_fields(state, ("done",), what)
        done = read_required(state, "done", int, what)
        if done < 0:
            raise SpecError(f"{what} has done at least 0 steps, not {done}.")
        self._done = done

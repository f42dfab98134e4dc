"""Waits for the replica count with the most progress a second, given the noise of gradients (after DBW)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.control.expected import empirical
from autosync.control.window import ArrivalWindow
from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_required

SMOOTHING = 0.1
"""A step's weight in the smoothed signal, noise and number of examples."""

LOOKS = 20
"""Every `LOOKS` steps the controller waits for at least two replicas, because one gradient does not show the noise."""


@final
class Gain:
    """Weighs the progress of a step against its expected time.

    With gradients of c replicas, of b examples each, a step makes 1 / (1 + N / c b) of the progress of a step without
    noise. N, the gradient's noise scale, is the trace of the covariance of an example's gradient over the squared norm
    of the expected gradient. The estimates of both are those of McCandlish, Kaplan, Amodei et al. 2018.

    DBW itself estimates the loss's smoothness from successive losses, for the same purpose.
    """

    def __init__(self, replicas: int, truncated: bool) -> None:
        self._replicas = replicas
        self._window = ArrivalWindow(replicas, truncated)
        self._steps = 0
        self._signal = self._noise = self._examples = 0.0

    def decide(self) -> Decision:
        times = self._window.rows
        if not times.size or self._signal <= 0:
            return Decision(first=self._replicas, norms=True)
        counts = np.arange(1, self._replicas + 1)
        progress = 1 / (1 + self._noise / self._signal / (counts * self._examples))
        expected = empirical(times, self._replicas)
        first = int(np.argmax(progress / np.maximum(expected, 1e-9))) + 1
        return Decision(first=max(first, 2) if self._steps % LOOKS == 0 else first, norms=True)

    def observe(self, report: StepReport) -> bool:
        self._window.note(report)
        self._steps += 1
        counted = [
            (norm, examples)
            for norm, examples in zip(report.square_norms, report.examples, strict=True)
            if norm is not None and examples
        ]
        if len(counted) < 2 or report.mean_square_norm is None:
            return False
        norms, examples = np.array(counted).T
        # The expected squared norm of a gradient over b examples is signal + noise / b, also for the mean gradient.
        share = np.mean(1 / examples)
        noise = (norms.mean() - report.mean_square_norm) / (share - 1 / examples.sum())
        signal = norms.mean() - noise * share
        if not np.isfinite([noise, signal]).all():
            return False
        weight = SMOOTHING if self._examples else 1.0
        self._noise += weight * (max(float(noise), 0.0) - self._noise)
        self._signal += weight * (float(signal) - self._signal)
        self._examples += weight * (float(examples.mean()) - self._examples)
        return False

    def state(self) -> dict[str, Any]:
        figures = {"signal": self._signal, "noise": self._noise, "examples": self._examples}
        return {"window": self._window.state(), "steps": self._steps, **figures}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a gain"
        check_fields(state, ("window", "steps", "signal", "noise", "examples"), what)
        figures = [read_required(state, name, float, what) for name in ("signal", "noise", "examples")]
        steps = read_required(state, "steps", int, what)
        if steps < 0 or not np.isfinite(figures).all() or min(figures[1:]) < 0:
            raise SpecError(f"{what} has finite figures, and at least 0 steps.")
        self._window.restore(read_required(state, "window", dict, what))
        self._steps = steps
        self._signal, self._noise, self._examples = figures

"""Formats estimates for tables."""

import math
from collections.abc import Callable

from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING


def in_trials(estimate: Estimate, most: int) -> str:
    """Return an estimate of trials such as `17 [12, 25]`; `>100` stands for a target not reached within `most`
    trials."""
    return _with_interval(estimate, lambda value: f"{value:.3g}" if math.isfinite(value) else f">{most}")


def in_times(estimate: Estimate) -> str:
    """Return an estimate of a ratio, such as `1.34 [1.29, 1.38]`."""
    return _with_interval(estimate, lambda value: f"{value:.2f}" if math.isfinite(value) else "inf")


def in_bound(baseline_seconds: float, bound_seconds: float) -> str:
    """Return the upper bound of the speed-up over the baseline, such as `1.43`; `-` without a bound."""
    return f"{baseline_seconds / bound_seconds:.2f}" if bound_seconds > 0 else NOTHING


def in_seconds(estimate: Estimate) -> str:
    """Return an estimate of seconds, such as `120 s [90, 140]`."""
    if math.isnan(estimate.value):
        return NOTHING
    value, low, high = (f"{end:.3g}" if math.isfinite(end) else "never" for end in _ends(estimate))
    return f"{value}{' s' if math.isfinite(estimate.value) else ''} [{low}, {high}]"


def _with_interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    if math.isnan(estimate.value):
        return NOTHING
    value, low, high = map(write, _ends(estimate))
    return f"{value} [{low}, {high}]"


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high

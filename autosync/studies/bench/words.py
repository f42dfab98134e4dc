"""How estimates are written in tables."""

import math
from collections.abc import Callable

from autosync.stats.estimate import Estimate
from autosync.stats.tables import NOTHING


def in_trials(estimate: Estimate, most: int) -> str:
    """An estimate such as `17 [12, 25]`; what was not reached within `most` trials is `>100`."""
    return _with_interval(estimate, lambda value: f"{value:.3g}" if math.isfinite(value) else f">{most}")


def in_times(estimate: Estimate) -> str:
    """An estimate of a ratio, such as `1.34 [1.29, 1.38]`."""
    return _with_interval(estimate, lambda value: f"{value:.2f}" if math.isfinite(value) else "inf")


def in_bound(baseline_seconds: float, bound_seconds: float) -> str:
    """The speed-up over the baseline that no strategy reaches, such as `1.43`; `-` where nothing bounds it."""
    return f"{baseline_seconds / bound_seconds:.2f}" if bound_seconds > 0 else NOTHING


def in_seconds(estimate: Estimate) -> str:
    """An estimate of seconds, such as `120 s [90, 140]`."""
    if math.isnan(estimate.value):
        return NOTHING
    value, low, high = (f"{each:.3g}" if math.isfinite(each) else "never" for each in _ends(estimate))
    return f"{value}{' s' if math.isfinite(estimate.value) else ''} [{low}, {high}]"


def _with_interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    if math.isnan(estimate.value):
        return NOTHING
    value, low, high = map(write, _ends(estimate))
    return f"{value} [{low}, {high}]"


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high

"""Formats numbers and intervals for the report."""

import math

from autosync.words.quantities import milliseconds, speedups

NOTHING = "\N{EN DASH}"
"""The text for a missing number."""

TIMES = "\N{MULTIPLICATION SIGN}"


def interval_ms(interval: tuple[float, float] | None) -> str:
    """An interval in seconds as its two ends in milliseconds."""
    return f"{interval[0] * 1e3:.1f} to {milliseconds(interval[1])}" if interval else NOTHING


def ratio(value: float | None) -> str:
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.2f} {TIMES}"


def ratio_interval(interval: tuple[float, float] | None) -> str:
    return f"{speedups(interval)} {TIMES}" if interval else NOTHING


def percent(share: float, digits: int = 0) -> str:
    return NOTHING if not math.isfinite(share) else f"{100 * share:.{digits}f} %"


def percent_interval(low: float, high: float, digits: int = 0) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return NOTHING
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"


def rate(gbit_per_s: float) -> str:
    """A rate in three digits, without an exponent: 0.189, 9.2, 23.6, 1240."""
    return f"{float(f'{gbit_per_s:.3g}'):g}"

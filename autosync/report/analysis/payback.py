"""When a search has paid for itself: how many steps of training win back the time it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Payback", "payback_of"]


@dataclass(frozen=True)
class Payback:
    """Steps under the winner after which the search's seconds are won back; `latest` is with the least speed-up."""

    search_seconds: float
    saved_seconds: float
    steps: float
    latest: float
    training_seconds: float


def payback_of(verdict: Mapping[str, Any], search_seconds: float, baseline_seconds: float) -> Payback | None:
    """The payback: a speed-up s saves the share 1 - 1/s of the baseline's seconds a step. None without a winner."""
    if not verdict.get("beyond_noise"):
        return None
    speedup, (low, _) = float(verdict["speedup"]), verdict["speedup_interval"]
    saved, least = (baseline_seconds * (1 - 1 / each) for each in (speedup, float(low)))
    steps = search_seconds / saved
    return Payback(search_seconds, saved, steps, search_seconds / least, steps * (baseline_seconds - saved))

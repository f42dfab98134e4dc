"""The verdict of a run in a plain sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["verdict_in_words"]


def verdict_in_words(verdict: Mapping[str, Any]) -> str:
    """Whether the winner beats the best baseline, and how sure that is; `verdict` as it stands in result.json."""
    low, high = verdict["speedup_interval"]
    interval = f"95 % interval {low:.2f} to {high:.2f}"
    note = f" {verdict['note']}" if verdict.get("note") else ""
    if verdict.get("changes_statistics"):
        note += " It changes the statistics of training: what counts is the time to a loss, not the step."
    baseline = verdict["baseline_label"]
    if verdict.get("candidate") is None:
        return f"No found strategy could be compared; the best baseline, {baseline}, is returned.{note}"
    if verdict["beyond_noise"]:
        return (
            f"{verdict['winner_label']} {verdict['winner'][:8]} is {verdict['speedup']:.2f} x as fast as the best "
            f"baseline, {baseline} ({interval}, {verdict['rounds']} rounds in turns).{note}"
        )
    return (
        f"No found strategy beats the best baseline beyond the noise (best: {verdict['speedup']:.2f} x, {interval}); "
        f"{baseline} is returned.{note}"
    )

"""Drawing a strategy that was never seen."""

from __future__ import annotations

import random
from collections.abc import Callable

from autosync.search.ledger import Ledger
from autosync.spec import Strategy

__all__ = ["fresh_strategy"]

TRIES = 200
"""Draws in a row that must all have been seen for a big space to be taken as used up."""


def fresh_strategy(ledger: Ledger, draw: Callable[[], Strategy], rng: random.Random) -> Strategy | None:
    """The first new strategy that `draw` gives; else, in a small space, one of those left; None when there is none."""
    left = ledger.left()
    if left is not None and not left:
        return None
    for _ in range(TRIES):
        strategy = draw()
        if ledger.is_new(strategy):
            return strategy
    return rng.choice(left) if left else None

"""The worth of another round: the gain that guided search expects, less the promises that did not come true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, final

from autosync.errors import SpecError
from autosync.spec import quote

ROUNDS = 10
"""Number of past rounds in which promised gains are compared with real ones."""

GOOD_FAITH = 0.02
"""A gain, in log seconds, that counts as promised and as achieved before the first comparison."""

_Round: TypeAlias = tuple[float | None, float]


@final
class Outlook:
    """Records the expected gain of each round's best pick and the leader's time when a round begins, in log seconds."""

    def __init__(self, rounds: Sequence[_Round] = ()) -> None:
        """Continue from `rounds`, the result of `rounds()`: pairs of the leader's time and the best pick's gain."""
        self._rounds = list(rounds)

    @classmethod
    def from_json(cls, rounds: Sequence[Any]) -> Outlook:
        """Return the outlook from rounds that were saved as JSON. Raises `SpecError`."""
        for entry in rounds:
            known = isinstance(entry, list | tuple) and len(entry) == 2 and entry[1] is not None
            if not known or not all(type(number) in (int, float) for number in entry if number is not None):
                raise SpecError(f"A round needs two numbers (the first may be null), not {quote(entry)}.")
        return cls([tuple(entry) for entry in rounds])

    @property
    def round(self) -> int:
        """The number of the next round."""
        return len(self._rounds)

    def begin(self, leader: float | None, gain: float) -> None:
        """Begin a round whose best pick promises `gain`. `leader` is None if no strategy was timed yet."""
        self._rounds.append((leader, gain))

    def rounds(self) -> list[_Round]:
        """Return the recorded rounds, in the form that `Outlook(...)` takes."""
        return list(self._rounds)

    def expected_gain(self) -> float | None:
        """Return the share of the leader's step that the latest best pick should save; None without a leader.

        The promise is weighted by how far earlier ones came true: gain achieved over gain promised in the last rounds.
        """
        leader, gain = self._rounds[-1] if self._rounds else (None, 0.0)
        if leader is None:
            return None
        past = [(before, promise) for before, promise in self._rounds[-1 - ROUNDS : -1] if before is not None]
        promised = sum(promise for _, promise in past)
        gained = max(0.0, past[0][0] - leader) if past else 0.0
        return -math.expm1(-gain * (gained + GOOD_FAITH) / (promised + GOOD_FAITH))

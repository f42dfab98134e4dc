"""What another round is worth: the gain that guided search expects, less for having expected too much so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, final

from autosync.errors import SpecError
from autosync.spec import quoted

ROUNDS = 10
"""Number of past rounds in which expected gains are compared with what came of them."""

GOOD_FAITH = 0.02
"""A gain, in log seconds, that is taken as both expected and come true before there is anything to compare."""

_Round: TypeAlias = tuple[float | None, float]


@final
class Outlook:
    """The gain expected of each round's best pick, in log seconds, as is what the leader takes when a round begins."""

    def __init__(self, rounds: Sequence[_Round] = ()) -> None:
        """`rounds` are what `rounds()` gave: what the leader takes, and the gain of the best pick."""
        self._rounds = list(rounds)

    @classmethod
    def restored(cls, rounds: Sequence[Any]) -> Outlook:
        """The outlook on rounds that were JSON in between. Raises `SpecError`."""
        for each in rounds:
            known = isinstance(each, list | tuple) and len(each) == 2 and each[1] is not None
            if not known or not all(type(number) in (int, float) for number in each if number is not None):
                raise SpecError(f"A round is two numbers, the first of which may be null, not {quoted(each)}.")
        return cls([tuple(each) for each in rounds])

    @property
    def round(self) -> int:
        """The number of the round that begins next."""
        return len(self._rounds)

    def begin(self, leader: float | None, gain: float) -> None:
        """Begin a round whose best pick promises `gain`; `leader` is None with none yet."""
        self._rounds.append((leader, gain))

    def rounds(self) -> list[_Round]:
        """The rounds that were kept, as `Outlook(...)` takes them."""
        return list(self._rounds)

    def expected_gain(self) -> float | None:
        """The share of the leader's step that the best of the latest picks is expected to save; None with no leader.

        A promise counts as much as earlier ones came true: gained over promised in the last rounds.
        """
        leader, gain = self._rounds[-1] if self._rounds else (None, 0.0)
        if leader is None:
            return None
        past = [(before, promise) for before, promise in self._rounds[-1 - ROUNDS : -1] if before is not None]
        promised = sum(promise for _, promise in past)
        gained = max(0.0, past[0][0] - leader) if past else 0.0
        return -math.expm1(-gain * (gained + GOOD_FAITH) / (promised + GOOD_FAITH))

"""Waiting for as many as has paid, of all counts that are tried: a discounted bandit (Garivier and Moulines 2011)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import every, known_fields

DISCOUNT = 0.98
CURIOSITY = 0.15
"""How much a count that was seldom tried is over its mean, as a share of the greatest mean."""

FORGOTTEN = 1e-3
"""The weight of tries under which a count is tried again."""


@final
class Bandit:
    """A count pays gradients a second. Those of older steps weigh less and less."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._paid = (0.0,) * replicas
        self._tries = (0.0,) * replicas

    def decide(self) -> Decision:
        tries = np.array(self._tries)
        if (tries < FORGOTTEN).any():
            return Decision(first=self._replicas - int(np.argmin(tries[::-1])))  # for all first
        means = np.array(self._paid) / tries
        bonus = CURIOSITY * means.max() * np.sqrt(math.log(tries.sum() + 1) / tries)
        return Decision(first=int(np.argmax(means + bonus)) + 1)

    def observe(self, report: StepReport) -> bool:
        seen = [each for each in report.arrivals if each is not None]
        if not seen or max(seen) <= 0:
            return False
        here = [float(count == len(seen)) for count in range(1, self._replicas + 1)]
        pay = len(seen) / max(seen)
        self._paid = tuple(DISCOUNT * each + pay * one for each, one in zip(self._paid, here, strict=True))
        self._tries = tuple(DISCOUNT * each + one for each, one in zip(self._tries, here, strict=True))
        return False

    def state(self) -> dict[str, Any]:
        return {"paid": list(self._paid), "tries": list(self._tries)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a bandit"
        known_fields(state, ("paid", "tries"), what)
        paid, tries = every(state, "paid", float, what), every(state, "tries", float, what)
        if not (len(paid) == len(tries) == self._replicas and all(0 <= each < math.inf for each in (*paid, *tries))):
            raise SpecError(f"{what} has what each of {self._replicas} counts has paid, and how often it was tried.")
        self._paid, self._tries = paid, tries

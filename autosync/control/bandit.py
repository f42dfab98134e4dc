"""Waits for the replica count that has paid best so far: a discounted bandit (Garivier and Moulines 2011)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from autosync.errors import SpecError
from autosync.spec import Decision, StepReport
from autosync.spec.codec import check_fields, read_list

DISCOUNT = 0.98
CURIOSITY = 0.15
"""The exploration bonus of a rarely tried count, as a share of the greatest mean."""

FORGOTTEN = 1e-3
"""If the discounted number of a count's tries falls below this weight, the count is tried again."""


@final
class Bandit:
    """A count's reward is gradients a second. Rewards of older steps are discounted."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._paid = (0.0,) * replicas
        self._tries = (0.0,) * replicas

    def decide(self) -> Decision:
        tries = np.array(self._tries)
        if (tries < FORGOTTEN).any():
            return Decision(first=self._replicas - int(np.argmin(tries[::-1])))  # the largest count first
        means = np.array(self._paid) / tries
        bonus = CURIOSITY * means.max() * np.sqrt(math.log(tries.sum() + 1) / tries)
        return Decision(first=int(np.argmax(means + bonus)) + 1)

    def observe(self, report: StepReport) -> bool:
        seen = [arrival for arrival in report.arrivals if arrival is not None]
        if not seen or max(seen) <= 0:
            return False
        tried = [float(count == len(seen)) for count in range(1, self._replicas + 1)]
        pay = len(seen) / max(seen)
        self._paid = tuple(DISCOUNT * paid + pay * now for paid, now in zip(self._paid, tried, strict=True))
        self._tries = tuple(DISCOUNT * tries + now for tries, now in zip(self._tries, tried, strict=True))
        return False

    def state(self) -> dict[str, Any]:
        return {"paid": list(self._paid), "tries": list(self._tries)}

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a bandit"
        check_fields(state, ("paid", "tries"), what)
        paid, tries = read_list(state, "paid", float, what), read_list(state, "tries", float, what)
        if not (
            len(paid) == len(tries) == self._replicas and all(0 <= figure < math.inf for figure in (*paid, *tries))
        ):
            raise SpecError(f"{what} has the reward and the number of tries of each of {self._replicas} counts.")
        self._paid, self._tries = paid, tries

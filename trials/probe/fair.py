"""Max-min fair rates of flows that share links (Bertsekas and Gallager, Data Networks, section 6.5.2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

__all__ = ["fair_rates"]

Key = TypeVar("Key", bound=Hashable)


def fair_rates(routes: Sequence[Sequence[Key]], capacities: Mapping[Key, float]) -> list[float]:
    """The rate of each flow; `routes` are the links it crosses. Links without a capacity do not limit.

    Flows that nothing limits get the largest rate that another one has, or 1 when there is none.
    """
    rates: dict[int, float] = {}
    left = dict(capacities)
    while len(rates) < len(routes):
        users: dict[Key, list[int]] = {}
        for flow, route in enumerate(routes):
            if flow not in rates:
                for link in route:
                    if link in left:
                        users.setdefault(link, []).append(flow)
        if not users:
            break
        tightest = min(users, key=lambda link: left[link] / len(users[link]))
        rate = left[tightest] / len(users[tightest])
        for flow in users[tightest]:
            rates[flow] = rate
            for link in routes[flow]:
                if link in left:
                    left[link] = max(left[link] - rate, 0.0)
        del left[tightest]
    unlimited = max(rates.values(), default=1.0)
    found = [rates.get(flow, unlimited) for flow in range(len(routes))]
    return [max(rate, math.ulp(unlimited)) for rate in found]

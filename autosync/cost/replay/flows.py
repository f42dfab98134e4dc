"""Max-min fair sharing: flows that begin together, each over a few links, and when the last of them has arrived.

In NumPy, for many flows over and over; trials share out a probe's few by name (`fair_rates` in `trials.probe.flows`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

NEARLY_ONE = 1 - 1e-9


def max_min_rates(crosses: npt.NDArray[np.bool_], capacity: FloatArray, counts: FloatArray) -> FloatArray:
    """Max-min fair rates of flows (f,), by progressive filling (Bertsekas and Gallager, section 6.5.2).

    `crosses` (f, links) says which links each flow takes, at least one; `capacity` (links,) is in bytes a second;
    flow i stands for `counts[i]` flows alike, of which each has the rate.
    """
    rates, left = np.zeros(len(crosses)), capacity.astype(np.float64)
    growing = np.ones(len(crosses), dtype=np.bool_)
    while growing.any():
        users = (counts * growing) @ crosses
        share = np.full(len(left), np.inf)
        np.divide(left, users, out=share, where=users > 0)
        lowest = share.min()
        full = (share <= lowest / NEARLY_ONE) & (users > 0)
        frozen = growing & (crosses @ full)
        rates[frozen] = lowest
        left = np.maximum(left - (counts * frozen * rates) @ crosses, 0.0)
        growing &= ~frozen
    return rates


def last_arrival(routes: Sequence[Sequence[int]], sizes: FloatArray, counts: FloatArray, capacity: FloatArray) -> float:
    """Seconds until all of the flows have arrived that begin together; `sizes` (f,) in bytes, `routes[i]` link numbers.

    Rates are max-min fair at every moment, and change when a flow ends.
    """
    live = np.flatnonzero(np.asarray(sizes) > 0).tolist()
    used = sorted({link for flow in live for link in routes[flow]})
    if not used:
        return 0.0
    number = {link: place for place, link in enumerate(used)}
    crosses = np.zeros((len(live), len(used)), dtype=np.bool_)
    for row, flow in enumerate(live):
        crosses[row, [number[link] for link in routes[flow]]] = True
    left, many, now = np.asarray(sizes)[live].astype(np.float64), np.asarray(counts)[live], 0.0
    while len(left):
        rates = max_min_rates(crosses, capacity[used], many)
        needed = left / rates
        step = needed.min()
        now += step
        going = needed > step / NEARLY_ONE
        left, crosses, many = (left - rates * step)[going], crosses[going], many[going]
    return float(now)

"""Max-min fair sharing of links among flows that begin together, and the arrival time of the last flow.

NumPy code for many flows and many calls; a trial's probe has few flows and uses names (`fair_rates` in
`trials.probe.flows`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autosync.numeric import FloatArray

NEARLY_ONE = 1 - 1e-9


def max_min_rates(crosses: npt.NDArray[np.bool_], capacity: FloatArray, counts: FloatArray) -> FloatArray:
    """Max-min fair rates of flows (f,), by progressive filling (Bertsekas and Gallager, section 6.5.2).

    `crosses` (f, links) marks the links of each flow, at least one; `capacity` (links,) is in bytes a second; flow i
    stands for `counts[i]` equal flows, and its rate is the rate of one of them.
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
    """Seconds until all flows, which begin together, have arrived; `sizes` (f,) in bytes, `routes[i]` link numbers.

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
    left, alike, now = np.asarray(sizes)[live].astype(np.float64), np.asarray(counts)[live], 0.0
    while len(left):
        rates = max_min_rates(crosses, capacity[used], alike)
        needed = left / rates
        step = needed.min()
        now += step
        going = needed > step / NEARLY_ONE
        left, crosses, alike = (left - rates * step)[going], crosses[going], alike[going]
    return float(now)

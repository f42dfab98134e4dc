"""Chooses the transport of top-k's entries, and optionally the ratio, by formulas: AR-Topk (Tyagi and Swany 2023)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.control.kept_energy import smooth
from autosync.errors import SpecError
from autosync.spec import Decision, Probed, StepReport, TopKTransport
from autosync.spec.codec import check_fields, read_list, read_optional, read_required

STEPS = 5
"""Steps whose median estimates the present send time. The first step after a change of transport or ratio is ignored.
"""

WORTH = 0.05
"""The share of a step that another transport must save before the controller changes to it."""

SMOOTHING = 0.05
"""A step's weight in the smoothed shares of energy that ratios keep."""


def exchange_seconds(transport: TopKTransport, ratio: float, replicas: int, probed: Probed) -> float:
    """Seconds to exchange the entries that top-k keeps of a gradient (equation 4), if indices are as long as values."""
    rounds = math.log2(replicas)
    sent = ratio * probed.gradient_seconds
    if transport.indices == "own":
        return probed.message_seconds * rounds + 2 * sent * (replicas - 1)
    if transport.algorithm == "ring":
        messages, share = 2 * (replicas - 1) + rounds, 2 * (replicas - 1) / replicas + rounds
    else:
        messages, share = 3 * rounds, 3 * rounds
    return probed.message_seconds * messages + sent * share


def knee(times: Sequence[float], losses: Sequence[float], time_weight: float) -> int:
    """The index of the point whose worse objective is smallest, as a weighted share of that objective's range.

    This point is the knee that achievement scalarization finds on the front of `times` and `losses`, both minimized.
    """

    def shares(values: Sequence[float]) -> list[float]:
        span = max(values) - min(values)
        return [(value - min(values)) / span if span > 0 else 0.0 for value in values]

    worse = [
        max(time_weight * slow, (1 - time_weight) * loss)
        for slow, loss in zip(shares(times), shares(losses), strict=True)
    ]
    return worse.index(min(worse))


@final
class ByFormula:
    """Chooses the transport with the least seconds by formula at the step's ratio; with `time_weight`, the ratio too.

    The steps themselves correct the initial probe: if they take longer than the first steps did, the difference is
    attributed to the link's rate. The controller thus follows the network without additional messages or steps.

    The ratio is the knee between the seconds of the ratio's exchange and 1 over the share of the squared norm it keeps.
    """

    def __init__(
        self,
        transports: Sequence[TopKTransport],
        ratios: Sequence[float],
        replicas: int,
        probed: Probed,
        time_weight: float | None,
    ) -> None:
        self._transports = tuple(transports)
        self._ratios = tuple(ratios)
        self._replicas = replicas
        self._first = probed
        self._probed = probed
        self._time_weight = time_weight
        self._ratio = 0
        self._transport = self._best(0)
        self._rest: float | None = None
        self._seconds: tuple[float, ...] = ()
        self._shares: tuple[float, ...] = ()

    def decide(self) -> Decision:
        if self._time_weight is None:
            return Decision(transport=self._transport)
        return Decision(ratio=self._ratio, transport=self._transport, watches=True)

    def observe(self, report: StepReport) -> bool:
        ratio = report.decision.ratio or 0
        self._shares = smooth(self._shares, report, SMOOTHING)
        if self._time_weight is None and ratio != self._ratio:
            self._ratio, self._seconds = ratio, ()  # another controller decides the ratio
        elif report.seconds is not None and math.isfinite(report.seconds):
            self._seconds = (*self._seconds, report.seconds)
        if len(self._seconds) > STEPS:
            self._follow(statistics.median(self._seconds[1:]))
        return False

    def _follow(self, seconds: float) -> None:
        """Attribute the part of `seconds` that is not explained by the rest of a step to the link's rate; decide again.

        The rest is the time of a step without its exchange. The first steps determine the rest, because the probe and
        the rest cannot be told apart by step times alone.
        """
        transport, ratio = self._transports[self._transport], self._ratios[self._ratio]
        if self._rest is None:
            self._rest = max(0.0, seconds - self._exchange(self._transport, self._ratio))
        waits = exchange_seconds(transport, ratio, self._replicas, Probed(self._first.message_seconds, 0.0))
        whole = exchange_seconds(transport, ratio, self._replicas, self._first) - waits
        if whole > 0:
            # If the payload is tiny, noise can make the rate seem to change a hundredfold; clip the correction.
            times = min(max((seconds - self._rest - waits) / whole, 0.01), 100.0)
            self._probed = Probed(self._first.message_seconds, times * self._first.gradient_seconds)
        before = self._transport, self._ratio
        if self._time_weight is not None and self._shares:
            times_of = [self._exchange(self._best(number), number) for number in range(len(self._ratios))]
            lost = [1 / max(share, 1e-6) for share in self._shares]
            self._ratio = knee(times_of, lost, self._time_weight)
        best = self._best(self._ratio)
        saved = self._exchange(self._transport, self._ratio) - self._exchange(best, self._ratio)
        if saved > WORTH * seconds:
            self._transport = best
        self._seconds = () if before != (self._transport, self._ratio) else self._seconds[-STEPS:]

    def _exchange(self, transport: int, ratio: int) -> float:
        return exchange_seconds(self._transports[transport], self._ratios[ratio], self._replicas, self._probed)

    def _best(self, ratio: int) -> int:
        times = [self._exchange(transport, ratio) for transport in range(len(self._transports))]
        return times.index(min(times))

    def state(self) -> dict[str, Any]:
        return {
            "ratio": self._ratio,
            "transport": self._transport,
            "gradient_seconds": self._probed.gradient_seconds,
            "rest": self._rest,
            "seconds": list(self._seconds),
            "shares": list(self._shares),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        what = "The state of a formula"
        check_fields(state, ("ratio", "transport", "gradient_seconds", "rest", "seconds", "shares"), what)
        ratio, transport = (read_required(state, name, int, what) for name in ("ratio", "transport"))
        gradient, rest = (
            read_required(state, "gradient_seconds", float, what),
            read_optional(state, "rest", float, what),
        )
        seconds, shares = read_list(state, "seconds", float, what), read_list(state, "shares", float, what)
        if not (0 <= ratio < len(self._ratios) and 0 <= transport < len(self._transports)):
            raise SpecError(f"{what} has one of {len(self._ratios)} ratios and of {len(self._transports)} transports.")
        if not all(0 <= figure < math.inf for figure in (gradient, rest or 0.0, *seconds, *shares)):
            raise SpecError(f"{what} has finite times and shares of at least 0.")
        if len(shares) not in (0, len(self._ratios)):
            raise SpecError(f"{what} has a share for each of {len(self._ratios)} ratios, or no shares yet.")
        self._ratio, self._transport, self._rest = ratio, transport, rest
        self._probed = Probed(self._first.message_seconds, gradient)
        self._seconds, self._shares = seconds, shares

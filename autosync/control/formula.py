"""Sending what top-k keeps by the transport, and if asked in the ratio, that formulas find best: AR-Topk's controllers
(Tyagi and Swany 2023).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.control.kept_energy import smoothed
from autosync.errors import SpecError
from autosync.spec import Decision, Probed, StepReport, Transport
from autosync.spec.codec import every, known_fields, optional, required

STEPS = 5
"""Steps whose median says what sending takes now. The first one after a change of transport or ratio says nothing."""

WORTH = 0.05
"""By what share of a step another transport is to be faster, if it is to be changed to."""

SMOOTHING = 0.05
"""What a step weighs in the smoothed shares that ratios keep."""


def exchange_seconds(transport: Transport, ratio: float, replicas: int, probed: Probed) -> float:
    """What it takes to bring all what top-k keeps of a gradient (equation 4), places being as long as values."""
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
    """The place whose worse objective, as a share of that objective's range and weighed, is the least.

    That is the knee which achievement scalarization finds on the front of `times` and `losses`, both to be small.
    """

    def shares(values: Sequence[float]) -> list[float]:
        span = max(values) - min(values)
        return [(each - min(values)) / span if span > 0 else 0.0 for each in values]

    worse = [
        max(time_weight * slow, (1 - time_weight) * loss)
        for slow, loss in zip(shares(times), shares(losses), strict=True)
    ]
    return worse.index(min(worse))


@final
class ByFormula:
    """The transport whose formula says the least seconds for the ratio of the step; with `time_weight` the ratio too.

    What is probed at first is corrected by the steps themselves: what their seconds are over those of the first steps
    is laid to the link's rate. So it follows the network without a message or a step more.

    The ratio is the knee between the seconds of its exchange and 1 over the share of the squared norm that it keeps.
    """

    def __init__(
        self,
        transports: Sequence[Transport],
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
        self._shares = smoothed(self._shares, report, SMOOTHING)
        if self._time_weight is None and ratio != self._ratio:
            self._ratio, self._seconds = ratio, ()  # somebody else's to decide
        elif report.seconds is not None and math.isfinite(report.seconds):
            self._seconds = (*self._seconds, report.seconds)
        if len(self._seconds) > STEPS:
            self._follow(statistics.median(self._seconds[1:]))
        return False

    def _follow(self, seconds: float) -> None:
        """Lay what steps of `seconds` take, over what they took besides sending, to the rate; and decide anew."""
        transport, ratio = self._transports[self._transport], self._ratios[self._ratio]
        if self._rest is None:
            self._rest = max(0.0, seconds - self._exchange(self._transport, self._ratio))
        waits = exchange_seconds(transport, ratio, self._replicas, Probed(self._first.message_seconds, 0.0))
        whole = exchange_seconds(transport, ratio, self._replicas, self._first) - waits
        if whole > 0:
            # A rate that seems a hundred times another is noise of a step that sends next to nothing.
            times = min(max((seconds - self._rest - waits) / whole, 0.01), 100.0)
            self._probed = Probed(self._first.message_seconds, times * self._first.gradient_seconds)
        before = self._transport, self._ratio
        if self._time_weight is not None and self._shares:
            times_of = [self._exchange(self._best(each), each) for each in range(len(self._ratios))]
            lost = [1 / max(each, 1e-6) for each in self._shares]
            self._ratio = knee(times_of, lost, self._time_weight)
        best = self._best(self._ratio)
        saved = self._exchange(self._transport, self._ratio) - self._exchange(best, self._ratio)
        if saved > WORTH * seconds:
            self._transport = best
        self._seconds = () if before != (self._transport, self._ratio) else self._seconds[-STEPS:]

    def _exchange(self, transport: int, ratio: int) -> float:
        return exchange_seconds(self._transports[transport], self._ratios[ratio], self._replicas, self._probed)

    def _best(self, ratio: int) -> int:
        times = [self._exchange(each, ratio) for each in range(len(self._transports))]
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
        known_fields(state, ("ratio", "transport", "gradient_seconds", "rest", "seconds", "shares"), what)
        ratio, transport = (required(state, name, int, what) for name in ("ratio", "transport"))
        gradient, rest = required(state, "gradient_seconds", float, what), optional(state, "rest", float, what)
        seconds, shares = every(state, "seconds", float, what), every(state, "shares", float, what)
        if not (0 <= ratio < len(self._ratios) and 0 <= transport < len(self._transports)):
            raise SpecError(f"{what} has one of {len(self._ratios)} ratios and of {len(self._transports)} transports.")
        if not all(0 <= each < math.inf for each in (gradient, rest or 0.0, *seconds, *shares)):
            raise SpecError(f"{what} has times and shares that are finite and not negative.")
        if len(shares) not in (0, len(self._ratios)):
            raise SpecError(f"{what} has a share for each of {len(self._ratios)} ratios, or none yet.")
        self._ratio, self._transport, self._rest = ratio, transport, rest
        self._probed = Probed(self._first.message_seconds, gradient)
        self._seconds, self._shares = seconds, shares

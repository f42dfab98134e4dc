"""A computed network: flows share its links max-min fairly, and time is virtual."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Device
from trials.probe.flows import ends_of, fair_rates

__all__ = ["FluidNetwork"]


class FluidNetwork:
    """Moves data between the devices of `truth` at its rates and latencies.

    A call takes `call_seconds` more, and each message `message_seconds`; the first `burst_bytes` of every flow take no
    time. Nodes in `dead` cannot be reached, and nodes in `silent` never answer.
    """

    call_seconds = 4e-3
    message_seconds = 5e-5
    copy_bytes_per_second = 1.25e10

    def __init__(
        self, truth: ClusterSpec, burst_bytes: int = 0, dead: frozenset[str] = frozenset(), silent: str = ""
    ) -> None:
        self._truth = truth
        self._burst_bytes = burst_bytes
        self._dead = dead
        self._silent = silent
        self._seconds = 0.0
        self._lock = threading.Lock()
        self.forever = threading.Event()

    def now(self) -> float:
        return self._seconds

    def pause(self, seconds: float) -> None:
        with self._lock:
            self._seconds += seconds

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        routes = [[ends_of(link) for link in self._route(*pair)] for pair in pairs]
        rates = {ends_of(link): link.bytes_per_second for link in self._truth.links}

        def call(flow_bytes: Sequence[int]) -> float:
            left = {flow: max(size - self._burst_bytes, 0.0) for flow, size in enumerate(flow_bytes)}
            seconds = self.call_seconds
            while left := {flow: size for flow, size in left.items() if size > 1e-6}:
                speeds = dict(zip(left, fair_rates([routes[flow] for flow in left], rates), strict=True))
                step = min(size / speeds[flow] for flow, size in left.items())
                left = {flow: size - step * speeds[flow] for flow, size in left.items()}
                seconds += step
            return self._took(seconds, pairs)

        return call

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        there, back = (
            sum(link.latency_seconds for link in self._route(*way)) for way in ((source, target), (target, source))
        )
        seconds = self.call_seconds + (count + 1) // 2 * there + count // 2 * back
        return lambda: self._took(seconds, [(source, target)])

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        return lambda: self._took(self.call_seconds + count * self.message_seconds, [(source, target)])

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        seconds = self.call_seconds + count * array_bytes / self.copy_bytes_per_second
        return lambda: self._took(seconds, [(device, device)])

    def _route(self, source: str, target: str) -> tuple:
        return self._truth.route(Device.parse(source).node, Device.parse(target).node)

    def _took(self, seconds: float, pairs: Sequence[tuple[str, str]]) -> float:
        nodes = {Device.parse(device).node for pair in pairs for device in pair}
        if self._silent in nodes:
            self.forever.wait()
        if nodes & self._dead:
            raise ClusterError("A worker cannot be reached (UnavailableError: Socket closed).")
        self.pause(seconds)
        return seconds

"""What a probe needs of the transport: timed calls that move data between devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Transport"]


class Transport(Protocol):
    """Builds calls that move data between devices (named as `Device` is) and return their seconds.

    The first call of each is not to be counted. Calls may be made from several threads at once, and raise
    `ClusterError` when a device cannot be reached. `autosync.engine.transfer.Transfers` says what each one does.
    """

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        """A call that sends along every (source, target) at once as many bytes as it is told for each."""
        ...

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call that sends a scalar back and forth, `count` times one after the other."""
        ...

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call that sends `count` scalars at once."""
        ...

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        """A call that copies an array `count` times within `device`."""
        ...

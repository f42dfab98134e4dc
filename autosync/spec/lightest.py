"""Who has the least so far, of many: what is placed piece by piece asks that again and again."""

import heapq
from collections.abc import Mapping, Sequence
from typing import final


@final
class Lightest:
    """Finds the device with the least load while loads grow; of several, the first as they are given.

    In a heap: a cluster may have a thousand servers, and a model as many shards for each.
    """

    def __init__(self, devices: Sequence[str], loads: Mapping[str, float]) -> None:
        """`loads` are looked up when asked; none may become less in between."""
        self.devices = devices
        self._loads = loads
        self._heap = [(loads[device], place) for place, device in enumerate(devices)]
        heapq.heapify(self._heap)

    def first(self) -> str:
        """The device of the least load now."""
        while True:
            load, place = self._heap[0]
            device = self.devices[place]
            if self._loads[device] == load:
                return device
            heapq.heapreplace(self._heap, (self._loads[device], place))

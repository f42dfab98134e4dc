"""A heap that finds the least loaded device, for placements that assign one shard after another."""

import heapq
from collections.abc import Mapping, Sequence
from typing import final


@final
class Lightest:
    """Finds the least loaded device while loads grow; among equals, the first in `devices`.

    A heap is used because a cluster may have a thousand servers, and a variable as many shards.
    """

    def __init__(self, devices: Sequence[str], loads: Mapping[str, float]) -> None:
        """`loads` is read at every query; between queries, the caller may only increase loads."""
        self.devices = devices
        self._loads = loads
        self._heap = [(loads[device], place) for place, device in enumerate(devices)]
        heapq.heapify(self._heap)

    def first(self) -> str:
        """The device with the least load now."""
        while True:
            load, place = self._heap[0]
            device = self.devices[place]
            if self._loads[device] == load:
                return device
            heapq.heapreplace(self._heap, (self._loads[device], place))

"""The kernel's counts of the processors' time since the machine was started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Jiffies", "jiffies"]


@dataclass(frozen=True)
class Jiffies:
    """Jiffies of all processors together."""

    all: int
    busy: int
    """Jiffies that were not idle."""
    on_packets: int
    """Jiffies on soft interrupts, most of which are for packets."""

    def __sub__(self, earlier: Jiffies) -> Jiffies:
        return Jiffies(self.all - earlier.all, self.busy - earlier.busy, self.on_packets - earlier.on_packets)


def jiffies() -> Jiffies:
    """Return the jiffies in /proc/stat (proc(5))."""
    line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    user, nice, system, idle, waiting, interrupts, on_packets, stolen = map(int, line.split()[1:9])
    busy = user + nice + system + interrupts + on_packets
    return Jiffies(busy + idle + waiting + stolen, busy, on_packets)

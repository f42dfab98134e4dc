"""What the machine's processors have done since it was started, by the kernel's count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Jiffies", "jiffies"]


@dataclass(frozen=True)
class Jiffies:
    """Jiffies of all processors together: all there were, those in which something ran, those on soft interrupts.

    Soft interrupts are packets' for the most part.
    """

    all: int
    busy: int
    on_packets: int

    def __sub__(self, earlier: Jiffies) -> Jiffies:
        return Jiffies(self.all - earlier.all, self.busy - earlier.busy, self.on_packets - earlier.on_packets)


def jiffies() -> Jiffies:
    """The jiffies that /proc/stat tells of (proc(5))."""
    line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    user, nice, system, idle, waiting, interrupts, on_packets, stolen = map(int, line.split()[1:9])
    busy = user + nice + system + interrupts + on_packets
    return Jiffies(busy + idle + waiting + stolen, busy, on_packets)

"""Slowing a link down to its rate."""

from __future__ import annotations

__all__ = ["FRAME_BYTES", "burst_bytes", "shaping_arguments"]

FRAME_BYTES = 9000
"""Largest packet, in bytes: jumbo frames, as in clusters' networks. A shaped link sends packet by packet, and each
costs this machine's processors, which the workers share. Measured on two cores, as a ring of 3 MB between TensorFlow
processes in two racks with uplinks of 300 Mbit/s: with packets of 1500 bytes handling them took half of the processors'
time, 3 % were sent again, and 172 Mbit/s went between the racks; with these it is an eighth, none, and 236 Mbit/s."""

HEADER_BYTES = 14
BURST_SECONDS = 260e-6
"""Seconds of the link's time that, beside one packet, may pass at the host's speed after a pause.

With it a flow of 3 MB has 95 to 98 % of its rate at 50 to 200 Mbit/s. A message of 64 KiB takes 4.7 ms longer at 100
Mbit/s than at 10 Gbit/s, where its size and the rate say 5.2; with a burst of 64 KiB it took 7 % of that, and small
variables would look free."""

QUEUE_MS = 50
"""Milliseconds, at its rate, of what a link holds back before it drops packets: a common switch's order."""


def burst_bytes(gbit_per_s: float) -> int:
    """The bytes that may pass at once: a burst smaller than a packet would let none pass."""
    return FRAME_BYTES + HEADER_BYTES + round(gbit_per_s * 1e9 / 8 * BURST_SECONDS)


def shaping_arguments(gbit_per_s: float) -> list[str]:
    """The arguments of `tc qdisc replace dev X root` that let at most this rate leave."""
    bits_per_second = round(gbit_per_s * 1e9)
    return ["tbf", "rate", f"{bits_per_second}bit", "burst", f"{burst_bytes(gbit_per_s)}b", "latency", f"{QUEUE_MS}ms"]

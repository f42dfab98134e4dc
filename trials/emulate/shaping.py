"""Slowing a link down to its rate."""

from __future__ import annotations

__all__ = ["burst_bytes", "shaping_arguments"]

BURST_SECONDS, LEAST_BURST_BYTES = 260e-6, 8192
"""What may pass at the host's speed after a pause: this much of the link's time, and at least five full packets.

Measured on two cores, idle and with every core busy: this much lets TCP have 95 % goodput at 50 to 200 Mbit/s and 89 %
or more at 1 Gbit/s, where a quarter of it gave 60 %. A message of 64 KiB then takes 94 % of the time that its size and
the rate say at 100 Mbit/s; with a burst of 64 KiB it took 7 %, and small variables would look free."""

QUEUE_MS = 50
"""How much a link holds back before it drops, as time at its rate: a common switch's order."""


def burst_bytes(gbit_per_s: float) -> int:
    return max(LEAST_BURST_BYTES, round(gbit_per_s * 1e9 / 8 * BURST_SECONDS))


def shaping_arguments(gbit_per_s: float) -> list[str]:
    """What `tc qdisc replace dev X root` takes to let at most this rate leave."""
    bits_per_second = round(gbit_per_s * 1e9)
    return ["tbf", "rate", f"{bits_per_second}bit", "burst", f"{burst_bytes(gbit_per_s)}b", "latency", f"{QUEUE_MS}ms"]

"""The size of a connection's send buffer: small, so that urgent messages overtake others, unless the link needs more.

Bytes in the kernel's buffer can no longer be overtaken by urgent messages, and several connections fill the queues of
shared links with such bytes. A buffer has to hold the bytes of a round trip at the connection's rate, which BBR
congestion control takes for the need of a link, too (Cardwell et al., ACM Queue 2016). A buffer also has to hold two of
the connection's segments: a receiver that holds less delays its acknowledgement by up to 40 ms, and the sender waits.
Segments are that large on a loopback interface alone. The size never shrinks: a connection stands still while its
buffer holds more than its size.
"""

from __future__ import annotations

import socket
import struct
from typing import final

LEAST_BYTES = 1 << 14
"""Enough for 1 Gbit/s with a round trip of 0.26 ms, because the kernel doubles the size."""

UNKNOWN_BYTES = 1 << 17
"""The size on systems that tell no rates."""

PERIOD = 32
"""The buffer is checked as often as it has been full this many times, because a check costs as much as a small send."""

_ROUND_TRIP = struct.Struct("=I")
_ROUND_TRIP_AT = 148
_RATE = struct.Struct("=Q")
_RATE_AT = 160
"""Offsets of `tcpi_min_rtt` (microseconds) and `tcpi_delivery_rate` (bytes a second) in Linux's `struct tcp_info`."""

_NO_ROUND_TRIP = (1 << 32) - 1


@final
class SendBuffer:
    """The kernel's send buffer of one TCP connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._fillings = 0
        self.bytes = 0
        """The size that was set last."""
        segment = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        least = LEAST_BYTES if segment < LEAST_BYTES else 2 * segment
        self._set(UNKNOWN_BYTES if self._round_trip_bytes() is None else least)

    def grow(self) -> None:
        """Enlarge the buffer now and then if the link needs more; call when the buffer is full."""
        self._fillings += 1
        if self._fillings % PERIOD:
            return
        needed = self._round_trip_bytes() or 0.0
        # The kernel doubles the size. So a connection that its buffer slows down needs about twice the size.
        if needed > 1.5 * self.bytes:
            self._set(int(needed))

    def _set(self, size: int) -> None:
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        self.bytes = size

    def _round_trip_bytes(self) -> float | None:
        """The bytes of a round trip at the connection's last rate; None if the system does not tell."""
        option = getattr(socket, "TCP_INFO", None)
        if option is None:
            return None
        try:
            facts = self._connection.getsockopt(socket.IPPROTO_TCP, option, 256)
        except OSError:
            return None
        if len(facts) < _RATE_AT + _RATE.size:
            return None
        (microseconds,) = _ROUND_TRIP.unpack_from(facts, _ROUND_TRIP_AT)
        (rate,) = _RATE.unpack_from(facts, _RATE_AT)
        return 0.0 if microseconds == _NO_ROUND_TRIP else 1e-6 * float(microseconds) * float(rate)

"""A ring's pieces: in how many of them a chunk goes round, so that one is being added while others are on the link."""

from __future__ import annotations

__all__ = ["MOST_RING_PIECES", "RING_PIECE_BYTES", "ring_pieces"]

RING_PIECE_BYTES, MOST_RING_PIECES = 1 << 19, 8
"""Bytes of each of a chunk's pieces, about, and the most pieces: each costs messages, and ops to trace."""


def ring_pieces(chunk_bytes: float) -> int:
    """How many pieces a chunk of `chunk_bytes` is cut in, 1 or more."""
    return max(1, min(round(chunk_bytes / RING_PIECE_BYTES), MOST_RING_PIECES))

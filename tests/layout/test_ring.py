"""A ring's pieces are about as large as intended, and never too many."""

from __future__ import annotations

import pytest

from autosync.layout.all_reduce.ring import MOST_RING_PIECES, RING_PIECE_BYTES, ring_pieces


@pytest.mark.parametrize("chunk_bytes", [0, 1, RING_PIECE_BYTES / 3, RING_PIECE_BYTES, 3 * RING_PIECE_BYTES, 10**12])
def test_a_chunks_pieces_are_about_as_large_as_they_should_be_and_never_too_many(chunk_bytes: float) -> None:
    pieces = ring_pieces(chunk_bytes)
    assert 1 <= pieces <= MOST_RING_PIECES
    assert chunk_bytes / pieces <= 1.5 * RING_PIECE_BYTES or pieces == MOST_RING_PIECES


def test_a_chunk_is_cut_once_two_pieces_are_nearer_to_the_size_than_one() -> None:
    assert [ring_pieces(factor * RING_PIECE_BYTES) for factor in (1.4, 1.6, 2.4, 2.6)] == [1, 2, 2, 3]

"""Parcels: the shards of a server that travel together, and their pieces."""

from __future__ import annotations

from itertools import chain

import pytest

from autosync.layout.fusion import MOST_PIECES, PARCEL_BYTES, PIECE_BYTES, is_elementwise, parcels, piece_sizes
from autosync.spec import Cast, ParameterServer, PowerSGD, TopK


def test_small_shards_are_fused_up_to_the_size_of_a_parcel() -> None:
    half = PARCEL_BYTES // 2
    assert parcels([half, half, half, 4]) == [range(2), range(2, 4)]
    assert parcels([4] * 1000) == [range(1000)]


def test_a_large_shard_ends_its_parcel_and_joins_the_shards_before_it() -> None:
    assert parcels([4, PARCEL_BYTES, 4, 4]) == [range(2), range(2, 4)]
    assert parcels([PARCEL_BYTES, PARCEL_BYTES]) == [range(1), range(1, 2)]


def test_every_shard_is_in_one_parcel() -> None:
    sizes = [7919 * index % 300_007 for index in range(200)]
    assert list(chain.from_iterable(parcels(sizes))) == list(range(200))
    assert parcels([]) == []


@pytest.mark.parametrize("elements", [0, 1, 1000, PIECE_BYTES // 4, PIECE_BYTES, 3 * PIECE_BYTES + 1, 10**9])
def test_pieces_add_up_are_about_one_size_and_not_too_many(elements: int) -> None:
    sizes = piece_sizes(elements, 4)
    assert sum(sizes) == elements
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) <= MOST_PIECES
    assert 4 * max(sizes) <= 1.5 * PIECE_BYTES or len(sizes) == MOST_PIECES


@pytest.mark.parametrize(
    ("compressor", "expected"),
    [(None, True), (Cast("bf16"), True), (Cast("fp16"), False), (TopK(0.1), False), (PowerSGD(2), False)],
    ids=repr,
)
def test_numbers_that_share_a_scale_or_a_factor_are_not_put_together(compressor: object, expected: bool) -> None:
    assert is_elementwise(ParameterServer("node0/cpu:0", compressor=compressor)) is expected  # type: ignore[arg-type]

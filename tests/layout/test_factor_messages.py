"""Factors share messages up to the size at which a message's contents cost more than the message."""

from __future__ import annotations

import pytest

from autosync.cost.channel_uses import ALL_GATHER, uses_of
from autosync.layout.factor_messages import are_small, factor_messages
from autosync.layout.fusion import PARCEL_BYTES
from autosync.layout.shards import Shard, Slice
from autosync.spec import AllReduce, SufficientFactors, Variable


def _shards(*kilobytes: int) -> tuple[Shard, ...]:
    """Shards whose factors, 64 rows of floats, have the given kilobytes; the last shard is ready first."""
    by, last, shards = AllReduce(0, compressor=SufficientFactors()), len(kilobytes) - 1, []
    for number, size in enumerate(kilobytes):
        shape = (size * 2, size * 2)
        variable = Variable(f"w{number}", shape, "float32", last - number, factor_rows=64)
        shards.append(Shard(Slice(variable, number, 0, 0, 0, shape[0]), by))
    return tuple(shards)


LARGE = PARCEL_BYTES // 1024 + 1


@pytest.mark.parametrize(
    ("kilobytes", "together", "messages"),
    [
        ((8,), [1], 1),
        ((8,) * 6, [6], 1),
        ((100, 100, 100), [2, 1], 2),
        ((256,), [1], 1),
        ((LARGE,), [1], 2),
        ((8, LARGE, 8, 8), [1, 1, 2], 4),
    ],
)
def test_small_factors_share_a_message_and_large_factors_take_two(
    kilobytes: tuple[int, ...], together: list[int], messages: int
) -> None:
    shards = _shards(*kilobytes)
    found = factor_messages(shards)
    assert [len(message) for message in found] == together
    assert [place for message in found for place in message] == list(range(len(shards)))
    assert sum(1 if are_small(shards[message.start : message.stop]) else 2 for message in found) == messages


def test_they_are_counted_in_the_order_in_which_they_are_ready() -> None:
    # In model order, 200, 100 and 150 kB would take three messages; 150 and 100 kB are ready first.
    shards = _shards(200, 100, 150)
    (used,) = (use for use in uses_of(shards, 4) if use.channel == ALL_GATHER)
    assert used.quantities.pieces == 2
    assert used.quantities.payload_bytes == 450 * 1024

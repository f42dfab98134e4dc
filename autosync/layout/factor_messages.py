"""Fusion of a bucket's sufficient factors: the factors of small matrices share a message."""

from collections.abc import Sequence

from autosync.layout.coding import factor_bytes
from autosync.layout.fusion import PARCEL_BYTES
from autosync.layout.shards import Shard


def factor_messages(shards: Sequence[Shard]) -> list[range]:
    """Ranges of places in a bucket, which is `as_ready`: the factors of a range go to each replica in one message.

    A range holds at most `PARCEL_BYTES`, because up to that size a message costs more than its contents. A shard with
    larger factors is a range of length 1: its left and right factors travel in one message each, without a copy.
    """
    messages: list[range] = []
    begin, held = 0, 0.0
    for place, size in enumerate(map(factor_bytes, shards)):
        if place > begin and held + size > PARCEL_BYTES:
            messages.append(range(begin, place))
            begin, held = place, 0.0
        held += size
    return [*messages, range(begin, len(shards))]


def are_small(shards: Sequence[Shard]) -> bool:
    """Whether the factors of a range of `factor_messages` travel in one message rather than two."""
    return len(shards) > 1 or factor_bytes(shards[0]) <= PARCEL_BYTES

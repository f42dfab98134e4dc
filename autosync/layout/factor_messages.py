"""Which sufficient factors of a bucket share a message: those of small matrices."""

from collections.abc import Sequence

from autosync.layout.coding import factor_bytes
from autosync.layout.shards import Shard
from autosync.layout.together import PARCEL_BYTES


def factor_messages(shards: Sequence[Shard]) -> list[range]:
    """The shards of a bucket, `as_ready`, whose factors go to each replica in one message, as ranges of places.

    As many as come to no more than `PARCEL_BYTES`, up to which a message costs more than its contents. Factors that are
    larger go by themselves, which is a range of one: the left and the right one in a message each, as they are.
    """
    found: list[range] = []
    begin, held = 0, 0.0
    for place, size in enumerate(map(factor_bytes, shards)):
        if place > begin and held + size > PARCEL_BYTES:
            found.append(range(begin, place))
            begin, held = place, 0.0
        held += size
    return [*found, range(begin, len(shards))]


def are_small(shards: Sequence[Shard]) -> bool:
    """Whether the factors of shards that `factor_messages` has put together are in one message, and not in two."""
    return len(shards) > 1 or factor_bytes(shards[0]) <= PARCEL_BYTES

"""What is known of good strategies before any is timed: rules with names, each of which a space can do without."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autosync.errors import SpaceError

KNOWLEDGE: Mapping[str, str] = MappingProxyType(
    {
        "load_balancing": "A shard goes to the server that has least to do. Without it: to any server.",
        "server_choice": "Servers are where the space's rules say, few or all of them for a whole strategy. "
        "Without it: all of them, for every variable.",
        "bucket_order": "A bucket holds gradients that are ready one after the other, and buckets are about equal. "
        "Without it: they are cut at any point from the variables in an arbitrary order.",
        "partition_bounds": "How finely a variable is cut follows from its bytes and the servers; small ones are not. "
        "Without it: any variable is cut in up to 32 shards, along any axis.",
        "common_decisions": "Variables of a shape, or over a size, are decided together. "
        "Without it: each variable, and each bucket's algorithm, by itself.",
    }
)
"""The name of every rule, and what it says. `server_choice` and `partition_bounds` say which strategies a space holds,
the others which of them are drawn, bred and found near each other."""


def check_known(names: Iterable[str], space: str) -> None:
    """Raise `SpaceError` for a name that is no rule's."""
    for name in names:
        if name not in KNOWLEDGE:
            raise SpaceError(f"Space {space!r} has no rule {name!r} to do without. Known: {', '.join(KNOWLEDGE)}.")

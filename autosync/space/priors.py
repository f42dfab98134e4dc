"""Prior knowledge about good strategies: named rules, which a space can switch off."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autosync.errors import SpaceError, did_you_mean

KNOWLEDGE: Mapping[str, str] = MappingProxyType(
    {
        "load_balancing": "A shard is placed on the least loaded server. Without the rule: on any server.",
        "server_choice": "Servers are the devices of the space's rules, and a strategy may use only some of them. "
        "Without the rule: every variable can use all server devices.",
        "bucket_order": "A bucket holds gradients that are ready one after the other, and buckets have about equal "
        "bytes. Without the rule: variables are in an arbitrary order, and buckets are cut at any point.",
        "partition_bounds": "A variable's bytes and the number of servers decide how finely the variable is cut; small "
        "variables stay whole. Without the rule: any variable is cut in up to 32 shards, along any axis.",
        "common_decisions": "Variables of the same shape, or over a size, are decided together. "
        "Without the rule: each variable, and each bucket's algorithm, is decided independently.",
    }
)
"""Every rule's name and meaning. `server_choice` and `partition_bounds` decide which strategies a space holds; the
other rules decide how strategies are sampled, mutated and crossed."""


def check_known(names: Iterable[str], space: str) -> None:
    """Raise `SpaceError` if a name is not the name of a rule."""
    for name in names:
        if name not in KNOWLEDGE:
            raise SpaceError(
                f"Space {space!r} has no rule {name!r} to do without.{did_you_mean(name, KNOWLEDGE)} Known: "
                f"{', '.join(KNOWLEDGE)}."
            )

"""A winner beside a baseline: what each of them decides on one variable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.spec import AllReduce, ModelSpec, Strategy, Synchronizer
from autosync.words.quantities import megabytes

__all__ = ["Contrast", "named"]

LARGE_SHARE = 0.1
"""Share of the bytes of all gradients from which on a variable is a decision of its own."""


@final
@dataclass(frozen=True)
class Contrast:
    """Two strategies of `model`. Groups from `free_group` on are in neither, even with the baseline's moved up."""

    model: ModelSpec
    winner: Strategy
    baseline: Strategy

    def bytes(self, name: str) -> float:
        """The bytes of one replica's gradient of the variable."""
        return self.model.by_name[name].gradient_bytes

    def is_large(self, name: str) -> bool:
        return self.bytes(name) >= LARGE_SHARE * self.model.gradient_bytes

    def is_summed(self, name: str, shard: Synchronizer) -> bool:
        """Whether the shard is added up in a bucket with others, rather than gathered for itself or on a server."""
        return isinstance(shard, AllReduce) and not shard.gathers and not self.model.by_name[name].sparse

    @cached_property
    def moved_up(self) -> int:
        """What is added to the baseline's groups so that they are none of the winner's."""
        return 1 + max((shard.group for _, _, shard in self.winner.shards() if isinstance(shard, AllReduce)), default=0)

    @cached_property
    def free_group(self) -> int:
        theirs = (shard.group for _, _, shard in self.baseline.shards() if isinstance(shard, AllReduce))
        return self.moved_up + 1 + max(theirs, default=0)

    def their_shard(self, name: str, index: int) -> Synchronizer:
        """The baseline's shard of that index, or its first shard where the baseline cuts the variable otherwise."""
        shards = self.baseline.by_name[name].shards
        return shards[index] if len(shards) == len(self.winner.by_name[name].shards) else shards[0]

    @cached_property
    def hosts(self) -> dict[int, AllReduce]:
        """The winner's bucket that holds most bytes of a baseline's bucket, by the group of the latter."""
        held: dict[int, dict[AllReduce, float]] = {}
        for each, index, ours in self.winner.shards():
            theirs = self.their_shard(each.variable, index)
            if isinstance(ours, AllReduce) and isinstance(theirs, AllReduce) and self.is_summed(each.variable, ours):
                within = held.setdefault(theirs.group, {})
                within[ours] = within.get(ours, 0.0) + self.bytes(each.variable) / len(each.shards)
        return {group: max(within, key=lambda ours: within[ours]) for group, within in held.items()}


def named(names: list[str], contrast: Contrast) -> str:
    """Variables in a few words: by name when it is one, else counted with their bytes."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} variables ({megabytes(sum(map(contrast.bytes, names)))})"

"""A strategy as its shards, each with the bytes it holds and its synchronizer."""

from __future__ import annotations

from dataclasses import dataclass

from autosync.spec import ModelSpec, Strategy, Synchronizer, Variable, VariableStrategy, shard_sizes

__all__ = ["Holding", "holdings"]


@dataclass(frozen=True)
class Holding:
    """One shard, the `index`th of `count` of `variable`, with its share of the variable's rows."""

    variable: Variable
    index: int
    count: int
    share: float
    synchronizer: Synchronizer

    @property
    def bytes(self) -> int:
        """Bytes of the shard's values."""
        return round(self.variable.bytes * self.share)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient of the shard in a step."""
        return self.variable.gradient_bytes * self.share


def holdings(strategy: Strategy, model: ModelSpec) -> list[Holding]:
    """Every shard of `strategy`, in its order."""
    return [
        Holding(model.by_name[each.variable], index, len(each.shards), _share(each, index, model), synchronizer)
        for each, index, synchronizer in strategy.shards()
    ]


def _share(each: VariableStrategy, index: int, model: ModelSpec) -> float:
    if each.partition is None:
        return 1.0
    rows = model.by_name[each.variable].shape[each.partition.axis]
    return shard_sizes(rows, each.partition.shards)[index] / rows

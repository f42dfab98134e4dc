"""Who holds which bytes: a strategy as its shards, each with its size and its synchronizer."""

from __future__ import annotations

from dataclasses import dataclass

from autosync.spec import ModelSpec, Strategy, Synchronizer, Variable, VariableStrategy, shard_sizes

__all__ = ["Holding", "gradient_bytes", "holdings"]


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
        return gradient_bytes(self.variable) * self.share


def gradient_bytes(variable: Variable) -> float:
    """Bytes of one replica's gradient in a step; a sparse one counts the rows it touches."""
    if variable.rows_per_step is None:
        return variable.bytes
    return variable.bytes * min(variable.rows_per_step / variable.shape[0], 1.0)


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

"""A strategy's shards: each with its place in its variable, its size and its synchronizer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from autosync.spec import ModelSpec, Strategy, Synchronizer, Variable, VariableStrategy, shard_sizes

__all__ = ["Holding", "Shard", "holdings", "shards_of"]


@dataclass(frozen=True)
class Shard:
    """A piece of variable number `variable_index`: rows `start` to `start + size` of axis `axis`."""

    variable: Variable
    variable_index: int
    index: int
    axis: int
    start: int
    size: int
    synchronizer: Synchronizer

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.variable.shape
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :]) if shape else ()

    @property
    def elements(self) -> int:
        return self.variable.elements // self.variable.shape[self.axis] * self.size if self.variable.shape else 1


def shards_of(strategy: Strategy, model: ModelSpec) -> tuple[tuple[Shard, ...], ...]:
    """The shards of every variable, in graph order."""
    layout = []
    for number, variable in enumerate(model.variables):
        decided = strategy.by_name[variable.name]
        axis = decided.partition.axis if decided.partition else 0
        rows = variable.shape[axis] if variable.shape else 1
        sizes = shard_sizes(rows, len(decided.shards))
        starts = [0, *accumulate(sizes)]
        layout.append(
            tuple(
                Shard(variable, number, index, axis, starts[index], sizes[index], synchronizer)
                for index, synchronizer in enumerate(decided.shards)
            )
        )
    return tuple(layout)


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

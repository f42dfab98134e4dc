"""The shards of a strategy: a shard's place in its variable, its sizes, its synchronizer and its channel."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, final

from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.spec import (
    DTYPE_BYTES,
    AllReduce,
    ModelSpec,
    Partition,
    Synchronizer,
    Variable,
    VariableStrategy,
    shard_sizes,
)

MOST_SHORT_IDS, SHORT_ID_BYTES, LONG_ID_BYTES = 2**31 - 1, 4, 8
"""Row numbers travel as int32 if int32 can count the variable's rows, else as int64."""


@dataclass(frozen=True)
class Slice:
    """The part of a variable that a shard holds, independent of its synchronizer."""

    variable: Variable

    variable_index: int
    """The variable's number in the model."""

    index: int
    """The shard's number among the variable's shards."""

    axis: int
    """The axis along which the variable is cut."""

    start: int
    """The first row of the axis."""

    size: int
    """The number of rows of the axis."""

    count: int = 1
    """The number of the variable's shards."""

    replicas: int = 1
    """The number of replicas that train the model."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        shape = self.variable.shape
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :]) if shape else ()

    @cached_property
    def elements(self) -> int:
        return self.variable.elements // self.variable.shape[self.axis] * self.size if self.variable.shape else 1

    @cached_property
    def item_bytes(self) -> int:
        return DTYPE_BYTES[self.variable.dtype]

    @cached_property
    def bytes(self) -> int:
        """Bytes of the values."""
        return self.elements * self.item_bytes

    @cached_property
    def share(self) -> float:
        """The share of the variable's rows."""
        return self.size / self.variable.shape[self.axis] if self.variable.shape else 1.0

    @cached_property
    def order(self) -> tuple[int, int]:
        """A sort key: slices in the order in which their gradients become ready."""
        return self.variable.ready_order, self.index

    @cached_property
    def weighs(self) -> Quantities:
        """The slice's quantities if gradients are not compressed."""
        variable = self.variable
        held = self.share * variable.bytes
        if variable.rows_per_step is None:
            return Quantities(held, 0.0, held, held, gradient_bytes=held)
        rows = self.share * variable.rows_per_step
        row_bytes = variable.row_elements * self.item_bytes
        answered = touched = rows * row_bytes
        id_bytes = SHORT_ID_BYTES if variable.shape[0] <= MOST_SHORT_IDS else LONG_ID_BYTES
        if variable.copied:
            # The answer says which rows it has. Their number is a lower bound, as `rows_of` says.
            all_rows = self.share * min(variable.shape[0], variable.rows_of(self.replicas))
            answered = all_rows * (row_bytes + id_bytes)
        return Quantities(touched, rows * id_bytes, touched, held, gradient_bytes=touched, answered_bytes=answered)


class Shard(NamedTuple):
    """A slice of a variable and its synchronizer."""

    slice: Slice
    synchronizer: Synchronizer

    @property
    def variable(self) -> Variable:
        return self.slice.variable

    @property
    def shape(self) -> tuple[int, ...]:
        return self.slice.shape

    @property
    def elements(self) -> int:
        return self.slice.elements

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step."""
        return self.variable.gradient_bytes * self.slice.share

    @property
    def channel(self) -> Channel:
        """The channel of the gradient if it is not compressed."""
        by, sparse = self.synchronizer, self.slice.variable.sparse
        if isinstance(by, AllReduce):
            return ("gathered_rows", "", False) if sparse else (by.algorithm, "", False)
        return ("sparse_server", by.device, False) if sparse else ("dense_server", by.device, by.local_copy)


@final
class Slices:
    """A cache of the slices of a model's variables, by variable and partition."""

    def __init__(self, model: ModelSpec, replicas: int) -> None:
        """`replicas` is the number of replicas that train the model."""
        self._replicas = replicas
        self._numbered = {variable.name: (number, variable) for number, variable in enumerate(model.variables)}
        self._cache: dict[tuple[str, Partition | None], tuple[Slice, ...]] = {}

    def __len__(self) -> int:
        return len(self._numbered)

    def of(self, name: str, cut: Partition | None) -> tuple[Slice, ...]:
        """The slices of a variable. Raises `KeyError`, `IndexError` or `SpecError` if the partition does not fit it."""
        if (name, cut) not in self._cache:
            self._cache[name, cut] = self._make(name, cut)
        return self._cache[name, cut]

    def shards(self, decision: VariableStrategy) -> tuple[Shard, ...]:
        """The shards that a decision makes of its variable. Raises as `of` does."""
        return tuple(map(Shard, self.of(decision.variable, decision.partition), decision.shards))

    def _make(self, name: str, cut: Partition | None) -> tuple[Slice, ...]:
        number, variable = self._numbered[name]
        axis = cut.axis if cut else 0
        sizes = shard_sizes(variable.shape[axis] if cut or variable.shape else 1, cut.shards if cut else 1)
        starts = accumulate(sizes, initial=0)
        return tuple(
            Slice(variable, number, index, axis, start, size, len(sizes), self._replicas)
            for index, (start, size) in enumerate(zip(starts, sizes, strict=False))
        )

"""What every shard of a variable weighs, under every partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from autosync.layout.exchange import Quantities
from autosync.spec import DTYPE_BYTES, Partition, Variable, shard_sizes

__all__ = ["VariableTable"]

MOST_SHORT_IDS, SHORT_ID_BYTES, LONG_ID_BYTES = 2**31 - 1, 4, 8
"""Row numbers travel as int32 where it can count a variable's rows."""


@final
@dataclass(frozen=True)
class VariableTable:
    """A variable's phase, and the quantities and shapes of its shards under every partition met so far."""

    variable: Variable
    phase: int
    _cuts: dict[Partition | None, tuple[Quantities, ...]] = field(default_factory=dict, repr=False)
    _shapes: dict[Partition | None, tuple[tuple[int, ...], ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def item_bytes(self) -> int:
        return DTYPE_BYTES[self.variable.dtype]

    @cached_property
    def elements_a_byte(self) -> float:
        return 1 / self.item_bytes

    def shards(self, cut: Partition | None) -> tuple[Quantities, ...]:
        """What each shard weighs when it is not compressed."""
        if cut not in self._cuts:
            self._cuts[cut] = tuple(self._quantities(share) for share in self._shares(cut))
        return self._cuts[cut]

    def shapes(self, cut: Partition | None) -> tuple[tuple[int, ...], ...]:
        if cut not in self._shapes:
            whole = self.variable.shape
            self._shapes[cut] = (
                (whole,)
                if cut is None
                else tuple(
                    (*whole[: cut.axis], size, *whole[cut.axis + 1 :])
                    for size in shard_sizes(whole[cut.axis], cut.shards)
                )
            )
        return self._shapes[cut]

    def _shares(self, cut: Partition | None) -> list[float]:
        if cut is None:
            return [1.0]
        rows = self.variable.shape[cut.axis]
        return [size / rows for size in shard_sizes(rows, cut.shards)]

    def _quantities(self, share: float) -> Quantities:
        variable = self.variable
        held = share * variable.bytes
        if variable.rows_per_step is None:
            return Quantities(held, 0.0, held, held, gradient_bytes=held)
        rows = share * variable.rows_per_step
        touched = rows * variable.row_elements * self.item_bytes
        id_bytes = SHORT_ID_BYTES if variable.shape[0] <= MOST_SHORT_IDS else LONG_ID_BYTES
        return Quantities(touched, rows * id_bytes, touched, held, gradient_bytes=touched)

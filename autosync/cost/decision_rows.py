"""Decisions on a model's variables as rows of numbers, each worked out once: thousands of strategies share most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.channels import Channel
from autosync.cost.exchange import Quantities
from autosync.cost.tables import CostTables, VariableTable
from autosync.spec import AllReduce, Strategy, Synchronizer, VariableStrategy

__all__ = ["ALONE", "BUCKET", "ENCODED", "MIXED", "PARCEL", "DecisionRows", "Rows", "channel_of"]

IntArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

BUCKET, PARCEL, ALONE = range(3)
"""How a shard travels: in an all-reduced bucket, in a server's parcel, by itself."""

ENCODED, MIXED = 0, -1
"""In place of the number of a decision that encodes gradients, of all its shards or of some: what that sends takes more
than a row to say. As a number, `ENCODED` is a decision's without any row."""

MOST_DECISIONS, MOST_OBJECTS = 50_000, 400_000
"""When there are more than so many, all are worked out anew, to bound memory."""


class Rows(NamedTuple):
    """One row a shard, all of shape (rows,) but `quantities` (rows, 7), which say what each weighs.

    `kind` is how it travels, `channel` the number of its channel and `key` that of those it may travel with: a bucket's
    group, or a server and a dtype. It is ready at `phase`, as the `order`-th; an element takes `item_bytes`.
    """

    kind: IntArray
    channel: IntArray
    key: IntArray
    phase: IntArray
    order: IntArray
    item_bytes: IntArray
    quantities: FloatArray

    def at(self, places: IntArray) -> Rows:
        return Rows(
            self.kind[places],
            self.channel[places],
            self.key[places],
            self.phase[places],
            self.order[places],
            self.item_bytes[places],
            self.quantities[places],
        )


@final
class DecisionRows:
    """Numbers decisions as they are met, and `channels` as decisions use them."""

    def __init__(self, tables: CostTables) -> None:
        self.channels: list[Channel] = []
        self._tables = tables
        self._forget()

    def numbers_of(self, strategies: Sequence[Strategy]) -> IntArray:
        """The number of each decision, or `ENCODED` or `MIXED`, int (n, variables).

        Raises `KeyError` for a server or variable that there is not, `ValueError` for other misfits.
        """
        if len(self._numbers) > MOST_DECISIONS or len(self._kept) > MOST_OBJECTS:
            self._forget()
        known, count = self._known.get, len(self._tables.variables)
        found: list[list[int | None]] = []
        for strategy in strategies:
            if len(strategy.variables) != count:
                raise ValueError("it does not decide every variable once")
            # Most decisions are the very objects that were met before, which is told faster than that they are equal.
            row = [known(id(each)) for each in strategy.variables]
            if None in row:
                row = [self._number(strategy.variables[at]) if one is None else one for at, one in enumerate(row)]
            found.append(row)
        self._take_up_new()
        return np.array(found, dtype=np.intp).reshape(-1, count)

    def rows_of(self, numbers: IntArray) -> tuple[IntArray, Rows]:
        """The rows of n strategies whose decisions are `numbers` (n, variables): whose each is (rows,), and they.

        None is `MIXED`.
        """
        counts = self._counts[numbers]
        each = counts.ravel()
        before = np.cumsum(each) - each
        places = np.repeat(self._starts[numbers].ravel() - before, each) + np.arange(int(each.sum()))
        kind, channel, key, phase, order, item_bytes = self._ints[places].T
        owners = np.repeat(np.arange(len(numbers)), counts.sum(axis=1))
        return owners, Rows(kind, channel, key, phase, order, item_bytes, self._quantities[places])

    def _forget(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._synchronizers: dict[Synchronizer, int] = {}
        self._keys: dict[tuple[object, ...], int] = {}
        # By identities, which stay those of the objects as long as these are kept.
        self._known: dict[int, int] = {}
        self._known_shards: dict[int, int] = {}
        self._kept: list[object] = []
        self._starts, self._counts = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)  # of ENCODED
        self._ints = np.zeros((0, len(Rows._fields) - 1), dtype=np.intp)
        self._quantities: FloatArray = np.zeros((0, len(Quantities._fields)))
        self._new: list[tuple[list[tuple[int, ...]], FloatArray]] = []
        self._weights: dict[tuple[object, ...], FloatArray] = {}

    def _number(self, decided: VariableStrategy) -> int:
        known, number_of = self._known_shards.get, self._shard_number
        shards = [number_of(each) if (one := known(id(each))) is None else one for each in decided.shards]
        key = (decided.variable, decided.partition, *shards)
        number = self._numbers.get(key)
        if number is None:
            encoded = [shard.compressor is not None for shard in decided.shards]
            number = ENCODED if all(encoded) else MIXED
            if not any(encoded):
                self._new.append(self._rows(decided, shards))
                number = len(self._counts) + len(self._new) - 1
            self._numbers[key] = number
        self._known[id(decided)] = number
        self._kept.append(decided)
        return number

    def _shard_number(self, shard: Synchronizer) -> int:
        number = self._synchronizers.setdefault(shard, len(self._synchronizers))
        self._known_shards[id(shard)] = number
        self._kept.append(shard)
        return number

    def _rows(self, decided: VariableStrategy, shards: list[int]) -> tuple[list[tuple[int, ...]], FloatArray]:
        table, cut = self._tables.variables[decided.variable], (decided.variable, decided.partition)
        if cut not in self._weights:
            self._weights[cut] = np.array(table.shards(decided.partition))
        ints = [self._row(table, *each) for each in zip(decided.shards, shards, range(len(shards)), strict=True)]
        return ints, self._weights[cut]

    def _row(self, table: VariableTable, shard: Synchronizer, number: int, index: int) -> tuple[int, ...]:
        variable = table.variable
        kind, key = ALONE, -1
        if not variable.sparse:
            kind = BUCKET if isinstance(shard, AllReduce) else PARCEL
            together = ("", shard.group) if isinstance(shard, AllReduce) else (variable.dtype, number)
            key = self._keys.setdefault(together, len(self._keys))
        channel = self._channel_number(channel_of(shard, variable.sparse))
        return kind, channel, key, table.phase, (variable.ready_order << 32) + index, table.item_bytes

    def _channel_number(self, channel: Channel) -> int:
        if channel not in self.channels:
            self._tables.projected(channel)  # raises where there is no such server
            self.channels.append(channel)
        return self.channels.index(channel)

    def _take_up_new(self) -> None:
        if not self._new:
            return
        counts = np.array([len(ints) for ints, _ in self._new], dtype=np.intp)
        starts = len(self._ints) + np.cumsum(counts) - counts
        self._starts, self._counts = np.append(self._starts, starts), np.append(self._counts, counts)
        rows = np.array([row for ints, _ in self._new for row in ints], dtype=np.intp)
        self._ints = np.concatenate([self._ints, rows])
        self._quantities = np.concatenate([self._quantities, *(weights for _, weights in self._new)])
        self._new = []


def channel_of(shard: Synchronizer, sparse: bool) -> Channel:
    """Of a shard that is not encoded."""
    if isinstance(shard, AllReduce):
        return ("gathered_rows", "", False) if sparse else (shard.algorithm, "", False)
    return ("sparse_server", shard.device, False) if sparse else ("dense_server", shard.device, shard.local_copy)

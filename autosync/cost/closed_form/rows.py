"""Decisions on variables as rows of numbers. Rows are computed once and looked up by the identity of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from autosync.cost.closed_form.tables import CostTables
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.fusion import way_of
from autosync.layout.shards import Shard
from autosync.numeric import FloatArray, IndexArray
from autosync.spec import Strategy, Synchronizer, VariableStrategy

UNMET = -2
"""The number of an unknown object."""

BITS = 18
MOST = 1 << (BITS - 1)
"""The maximum number of cached objects. With more, the cache is cleared; objects still in use soon return."""

SPREADING = 0x9E3779B97F4A7C15
"""The factor of Knuth's multiplicative hashing, 2^64 over the golden ratio; the product's first bits are the slot."""


@final
class MetObjects:
    """A hash table of objects by address, in two layers. An object whose slots are taken in both layers stays unknown.

    The table holds references to its objects, so that no new object can get the address of a known one.
    """

    def __init__(self) -> None:
        self._forget()

    def add(self, objects: Sequence[object], numbers: Sequence[int]) -> None:
        """Assign `numbers`, which must not be `UNMET`, to `objects`, which must be unknown."""
        if len(self._kept) + len(objects) > MOST:
            self._forget()
        self._kept.extend(objects)
        addresses, values = _addresses(objects), np.array(numbers, dtype=np.intp)
        for layer in range(2):
            slots = _slots(addresses)
            free = self._addresses[layer, slots] == 0
            self._addresses[layer, slots[free]], self._numbers[layer, slots[free]] = addresses[free], values[free]
            left = self._addresses[layer, slots] != addresses  # several objects may have found the same free slot
            addresses, values = addresses[left], values[left]

    def numbers_of(self, objects: Sequence[object]) -> IndexArray:
        """The numbers of the objects, or `UNMET`; int (n,)."""
        addresses = _addresses(objects)
        slots = _slots(addresses)
        numbers = np.where(self._addresses[0, slots] == addresses, self._numbers[0, slots], UNMET)
        missed = np.flatnonzero(numbers == UNMET)
        slots = slots[missed]
        numbers[missed] = np.where(self._addresses[1, slots] == addresses[missed], self._numbers[1, slots], UNMET)
        return numbers

    def _forget(self) -> None:
        self._addresses, self._numbers = np.zeros((2, 2, 1 << BITS), dtype=np.intp)
        self._kept: list[object] = []


def _addresses(objects: Sequence[object]) -> IndexArray:
    return np.fromiter(map(id, objects), np.intp, len(objects))


def _slots(addresses: IndexArray) -> IndexArray:
    spread = addresses.astype(np.uint64) * np.uint64(SPREADING)
    return np.asarray(spread >> np.uint64(64 - BITS), dtype=np.intp)


ENCODED, MIXED = 0, -1
"""The numbers of decisions that encode the gradients of all of their shards, or of some. One row cannot describe the
traffic of such a decision. As a row index, `ENCODED` means a decision without rows."""

MOST_DECISIONS, MOST_SHARDS = 50_000, 200_000
"""The maximum numbers of cached decisions and shards. With more, the cache is cleared, to bound memory."""


class ShardRows(NamedTuple):
    """One row per shard; all columns but `quantities` have the shape (rows,)."""

    kind: IndexArray
    """The way the shard travels (`way_of`)."""

    channel: IndexArray
    """The number of the shard's channel."""

    key: IndexArray
    """The number of the key of shards that may travel together: a bucket's group, or a server and a dtype. The integer
    type is the smallest possible, because NumPy sorts short integers by radix."""

    phase: IndexArray
    """The phase at which the gradient is ready."""

    order: IndexArray
    """The variable's place in the order in which gradients become ready, in the smallest integer type, like `key`."""

    item_bytes: IndexArray
    """Bytes of an element."""

    quantities: FloatArray
    """The shard's quantities, (rows, 8)."""


@final
class DecisionRows:
    """Numbers decisions and their `channels` in order of first appearance; `table` holds the rows of all decisions."""

    def __init__(self, tables: CostTables) -> None:
        self.channels: list[Channel] = []
        self._channel_numbers: dict[Channel, int] = {}
        self._tables = tables
        self._forget()

    def numbers_of(self, strategies: Sequence[Strategy]) -> IndexArray:
        """The number of each decision, or `ENCODED` or `MIXED`, int (n, variables).

        Raises `KeyError` for an unknown server or variable, `ValueError` for other misfits.
        """
        if len(self._numbers) > MOST_DECISIONS or len(self._known_shards) > MOST_SHARDS:
            self._forget()
        count = len(self._tables.phases)
        if any(len(strategy.variables) != count for strategy in strategies):
            raise ValueError("the strategy does not decide every variable exactly once")
        decisions = [decision for strategy in strategies for decision in strategy.variables]
        # Most decisions are objects seen before. Identity is compared because it is faster than equality.
        numbers = self._met.numbers_of(decisions)
        unmet = np.flatnonzero(numbers == UNMET)
        if len(unmet):
            objects = [decisions[place] for place in unmet.tolist()]
            new = {id(decision): decision for decision in objects}
            number_of = {address: self._number(decision) for address, decision in new.items()}
            self._met.add(list(new.values()), list(number_of.values()))
            numbers[unmet] = [number_of[id(decision)] for decision in objects]
        self._append_new()
        return numbers.reshape(-1, count)

    def rows_of(self, numbers: IndexArray) -> tuple[IndexArray, IndexArray]:
        """The rows of n strategies whose decisions are `numbers` (n, variables), decision by decision and shard by
        shard: the strategy of each row, from 0 (rows,), and the row's place in `table` (rows,).

        No number may be `MIXED`.
        """
        counts = self._counts[numbers]
        of_decisions = counts.ravel()
        before = np.cumsum(of_decisions) - of_decisions
        starts = np.repeat(self._starts[numbers].ravel() - before, of_decisions)
        places = starts + np.arange(int(of_decisions.sum()))
        return np.repeat(np.arange(len(numbers)), counts.sum(axis=1)), places

    def _forget(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._synchronizers: dict[Synchronizer, int] = {}
        self._keys: dict[tuple[object, ...], int] = {}
        self._met = MetObjects()
        # The numbers of shards by identity. `_kept_shards` keeps the shards alive, so that identities stay valid.
        self._known_shards: dict[int, int] = {}
        self._kept_shards: list[Synchronizer] = []
        self._starts, self._counts = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)  # of ENCODED
        none = np.zeros(0, dtype=np.intp)
        self.table = ShardRows(none, none, none, none, none, none, np.zeros((0, len(Quantities._fields))))
        self._new: list[tuple[list[tuple[int, ...]], FloatArray]] = []
        self._weights: dict[tuple[object, ...], FloatArray] = {}

    def _number(self, decision: VariableStrategy) -> int:
        get, number_of = self._known_shards.get, self._shard_number
        shards = [number_of(shard) if (known := get(id(shard))) is None else known for shard in decision.shards]
        cut = decision.partition  # the key has its numbers, because hashing a dataclass takes longer than all the rest
        key = (decision.variable, cut and cut.axis, cut and cut.shards, *shards)
        number = self._numbers.get(key)
        if number is None:
            encoded = [shard.compressor is not None for shard in decision.shards]
            number = ENCODED if all(encoded) else MIXED
            if not any(encoded):
                self._new.append(self._rows(decision))
                number = len(self._counts) + len(self._new) - 1
            self._numbers[key] = number
        return number

    def _shard_number(self, shard: Synchronizer) -> int:
        number = self._synchronizers.setdefault(shard, len(self._synchronizers))
        self._known_shards[id(shard)] = number
        self._kept_shards.append(shard)
        return number

    def _rows(self, decision: VariableStrategy) -> tuple[list[tuple[int, ...]], FloatArray]:
        shards, cut = self._tables.slices.shards(decision), (decision.variable, decision.partition)
        if cut not in self._weights:
            self._weights[cut] = np.array([shard.slice.weighs for shard in shards])
        return [self._row(shard) for shard in shards], self._weights[cut]

    def _row(self, shard: Shard) -> tuple[int, ...]:
        way, variable = way_of(shard), shard.variable
        key, channel = self._keys.setdefault(way, len(self._keys)), self._channel_number(shard.channel)
        return way[0], channel, key, self._tables.phases[variable.name], variable.ready_order, shard.slice.item_bytes

    def _channel_number(self, channel: Channel) -> int:
        number = self._channel_numbers.get(channel)
        if number is None:
            self._tables.exchange_loads(channel)  # raises if the cluster lacks the server
            number = self._channel_numbers[channel] = len(self.channels)
            self.channels.append(channel)
        return number

    def _append_new(self) -> None:
        """Append the rows of new decisions to `table`."""
        if not self._new:
            return
        counts = np.array([len(ints) for ints, _ in self._new], dtype=np.intp)
        starts = len(self.table.kind) + np.cumsum(counts) - counts
        self._starts, self._counts = np.append(self._starts, starts), np.append(self._counts, counts)
        ints = np.array([row for ints, _ in self._new for row in ints], dtype=np.intp)
        *columns, quantities = self.table
        kind, channel, key, phase, order, item_bytes = map(np.append, columns, ints.T)
        quantities = np.concatenate([quantities, *(weights for _, weights in self._new)])
        self.table = ShardRows(kind, channel, _short(key), phase, _short(order), item_bytes, quantities)
        self._new = []


def _short(numbers: IndexArray) -> IndexArray:
    """The numbers (nonnegative) in the smallest integer type that holds them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))

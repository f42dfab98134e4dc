"""Decisions on variables as rows of numbers, each worked out once, and found again by their objects' identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.tables import CostTables
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.layout.shards import Shard
from autosync.layout.together import way_of
from autosync.spec import Strategy, Synchronizer, VariableStrategy

UNMET = -2
"""Stand-in for the number of an object that is not known."""

BITS = 18
MOST = 1 << (BITS - 1)
"""The most objects kept. When there are more, all are forgotten: those still in use are soon met again."""

SPREADING = 0x9E3779B97F4A7C15
"""The factor of Knuth's multiplicative hashing, 2^64 over the golden ratio: the product's first bits are the slot."""


@final
class MetObjects:
    """A hash table of addresses in two layers; an object that finds its slot taken in both is not known.

    Objects are kept, so that no other comes to lie at the address of one.
    """

    def __init__(self) -> None:
        self._forget()

    def add(self, met: Sequence[object], numbers: Sequence[int]) -> None:
        """Give the objects `met`, none of which was known, these `numbers`, none of which is `UNMET`."""
        if len(self._kept) + len(met) > MOST:
            self._forget()
        self._kept.extend(met)
        addresses, given = _addresses(met), np.array(numbers, dtype=np.intp)
        for layer in range(2):
            slots = _slots(addresses)
            free = self._addresses[layer, slots] == 0
            self._addresses[layer, slots[free]], self._numbers[layer, slots[free]] = addresses[free], given[free]
            left = self._addresses[layer, slots] != addresses  # two of `met` may have found one slot free
            addresses, given = addresses[left], given[left]

    def numbers_of(self, objects: Sequence[object]) -> IntArray:
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


def _addresses(objects: Sequence[object]) -> IntArray:
    return np.fromiter(map(id, objects), np.intp, len(objects))


def _slots(addresses: IntArray) -> IntArray:
    spread = addresses.astype(np.uint64) * np.uint64(SPREADING)
    return np.asarray(spread >> np.uint64(64 - BITS), dtype=np.intp)


IntArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

ENCODED, MIXED = 0, -1
"""Stand-ins for the number of a decision that encodes the gradients of all its shards, or of some: what that sends
takes more than a row to say. Read as a number, `ENCODED` is a decision without any row."""

MOST_DECISIONS, MOST_SHARDS = 50_000, 200_000
"""The most decisions and shards that are kept: when more were met, all are worked out anew, to bound memory."""


class Rows(NamedTuple):
    """One row a shard, all of shape (rows,) but `quantities` (rows, 7), which say what each weighs.

    `kind` is how it travels (`way_of`), `channel` the number of its channel and `key` that of those it may travel
    with: a bucket's group, or a server and a dtype. It is ready at `phase`, its variable as the `order`-th; an element
    takes `item_bytes`. `key` and `order` are of the smallest type that holds them: NumPy sorts short integers by radix.
    """

    kind: IntArray
    channel: IntArray
    key: IntArray
    phase: IntArray
    order: IntArray
    item_bytes: IntArray
    quantities: FloatArray


@final
class DecisionRows:
    """Numbers decisions as they are met, and `channels` as decisions use them; `table` holds the rows of all."""

    def __init__(self, tables: CostTables) -> None:
        self.channels: list[Channel] = []
        self._channel_numbers: dict[Channel, int] = {}
        self._tables = tables
        self._forget()

    def numbers_of(self, strategies: Sequence[Strategy]) -> IntArray:
        """The number of each decision, or `ENCODED` or `MIXED`, int (n, variables).

        Raises `KeyError` for a server or variable that there is not, `ValueError` for other misfits.
        """
        if len(self._numbers) > MOST_DECISIONS or len(self._known_shards) > MOST_SHARDS:
            self._forget()
        count = len(self._tables.phases)
        if any(len(strategy.variables) != count for strategy in strategies):
            raise ValueError("it does not decide every variable once")
        decided = [each for strategy in strategies for each in strategy.variables]
        # Most decisions are the very objects that were met before, which is told faster than that they are equal.
        numbers = self._met.numbers_of(decided)
        unmet = np.flatnonzero(numbers == UNMET)
        if len(unmet):
            objects = [decided[place] for place in unmet.tolist()]
            new = {id(each): each for each in objects}
            found = {address: self._number(each) for address, each in new.items()}
            self._met.add(list(new.values()), list(found.values()))
            numbers[unmet] = [found[id(each)] for each in objects]
        self._take_up_new()
        return numbers.reshape(-1, count)

    def rows_of(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """The rows of n strategies whose decisions are `numbers` (n, variables): the strategy that each is of (rows,),
        from 0 on, and the row's place in `table` (rows,), decision by decision and shard by shard.

        None is `MIXED`.
        """
        counts = self._counts[numbers]
        each = counts.ravel()
        before = np.cumsum(each) - each
        places = np.repeat(self._starts[numbers].ravel() - before, each) + np.arange(int(each.sum()))
        return np.repeat(np.arange(len(numbers)), counts.sum(axis=1)), places

    def _forget(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._synchronizers: dict[Synchronizer, int] = {}
        self._keys: dict[tuple[object, ...], int] = {}
        self._met = MetObjects()
        # Shards' numbers by identity, which stays that of the shards as long as these are kept.
        self._known_shards: dict[int, int] = {}
        self._kept_shards: list[Synchronizer] = []
        self._starts, self._counts = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)  # of ENCODED
        none = np.zeros(0, dtype=np.intp)
        self.table = Rows(none, none, none, none, none, none, np.zeros((0, len(Quantities._fields))))
        self._new: list[tuple[list[tuple[int, ...]], FloatArray]] = []
        self._weights: dict[tuple[object, ...], FloatArray] = {}

    def _number(self, decided: VariableStrategy) -> int:
        known, number_of = self._known_shards.get, self._shard_number
        shards = [number_of(each) if (one := known(id(each))) is None else one for each in decided.shards]
        cut = decided.partition  # told by its numbers, since hashing a dataclass takes longer than all the rest
        key = (decided.variable, cut and cut.axis, cut and cut.shards, *shards)
        number = self._numbers.get(key)
        if number is None:
            encoded = [shard.compressor is not None for shard in decided.shards]
            number = ENCODED if all(encoded) else MIXED
            if not any(encoded):
                self._new.append(self._rows(decided))
                number = len(self._counts) + len(self._new) - 1
            self._numbers[key] = number
        return number

    def _shard_number(self, shard: Synchronizer) -> int:
        number = self._synchronizers.setdefault(shard, len(self._synchronizers))
        self._known_shards[id(shard)] = number
        self._kept_shards.append(shard)
        return number

    def _rows(self, decided: VariableStrategy) -> tuple[list[tuple[int, ...]], FloatArray]:
        shards, cut = self._tables.slices.shards(decided), (decided.variable, decided.partition)
        if cut not in self._weights:
            self._weights[cut] = np.array([shard.slice.weighs for shard in shards])
        return [self._row(each) for each in shards], self._weights[cut]

    def _row(self, shard: Shard) -> tuple[int, ...]:
        way, variable = way_of(shard), shard.variable
        key, channel = self._keys.setdefault(way, len(self._keys)), self._channel_number(shard.channel)
        return way[0], channel, key, self._tables.phases[variable.name], variable.ready_order, shard.slice.item_bytes

    def _channel_number(self, channel: Channel) -> int:
        number = self._channel_numbers.get(channel)
        if number is None:
            self._tables.projected(channel)  # raises where there is no such server
            number = self._channel_numbers[channel] = len(self.channels)
            self.channels.append(channel)
        return number

    def _take_up_new(self) -> None:
        if not self._new:
            return
        counts = np.array([len(ints) for ints, _ in self._new], dtype=np.intp)
        starts = len(self.table.kind) + np.cumsum(counts) - counts
        self._starts, self._counts = np.append(self._starts, starts), np.append(self._counts, counts)
        ints = np.array([row for ints, _ in self._new for row in ints], dtype=np.intp)
        *columns, quantities = self.table
        kind, channel, key, phase, order, item_bytes = map(np.append, columns, ints.T)
        quantities = np.concatenate([quantities, *(weights for _, weights in self._new)])
        self.table = Rows(kind, channel, _short(key), phase, _short(order), item_bytes, quantities)
        self._new = []


def _short(numbers: IntArray) -> IntArray:
    """The numbers, none of which is negative, as the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))

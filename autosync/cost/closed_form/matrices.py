"""What the channels of some strategies load, as matrices: in full, or once for channels alike but for their server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.cost.alike import Alike
from autosync.cost.closed_form.projection import Columns, Projected

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

Convert: TypeAlias = Callable[[FloatArray], FloatArray]
"""Loads (..., columns) as seconds (..., resources)."""

PULL, PUSH, BACK = WAYS = ("pull", "push", "back")

FEWEST_FOLDED = 8
"""The fewest channels alike but for their server for which it is worth it to say their loads once."""


@final
@dataclass(frozen=True, eq=False)
class Matrices:
    """C channels times 7 quantities make rows, of which `rows` (r,) load anything at all; `latency_seconds` is (C,).

    The first of these rows have a row each in matrices. The others are of channels in `folded`, group by group, channel
    by channel.
    """

    rows: IntArray
    latency_seconds: FloatArray
    full: dict[str, FloatArray]
    folded: tuple[_Folded, ...]

    @classmethod
    def of(cls, channels: Sequence[Projected], alike: Alike, columns: Columns) -> Matrices:
        """The matrices of one or more channels, in the order given."""
        groups: dict[int, list[int]] = {}
        for place, channel in enumerate(channels):
            groups.setdefault(id(channel.push), []).append(place)
        many = [places for places in groups.values() if len(places) >= FEWEST_FOLDED]
        few = sorted({*range(len(channels))}.difference(*many))
        kinds = channels[0].push.shape[0]
        full = {way: _stacked([channels[place].moved(way, alike, columns) for place in few], columns) for way in WAYS}
        loads = np.flatnonzero((full[PULL] + full[PUSH] + full[BACK]).any(axis=1))
        rows = [np.array(few, dtype=np.intp)[loads // kinds] * kinds + loads % kinds]
        folded = []
        for places in many:
            held = _Folded.of([channels[place] for place in places], alike, columns)
            folded.append(held)
            rows.append((np.array(places, dtype=np.intp)[:, None] * kinds + held.kinds).ravel())
        latency = np.array([each.latency_seconds for each in channels])
        return cls(np.concatenate(rows), latency, {way: each[loads] for way, each in full.items()}, tuple(folded))

    def times(self, quantities: FloatArray, ways: Sequence[str], convert: Convert | None = None) -> FloatArray:
        """What `quantities` (..., r) load in these ways: (..., columns), or converted, (..., resources)."""
        matrices = [self.full[way] if convert is None else convert(self.full[way]) for way in ways]
        begin = len(matrices[0])
        found = quantities[..., :begin] @ sum(matrices[1:], matrices[0])
        for each in self.folded:
            end = begin + each.count * len(each.kinds)
            each.add(found, quantities[..., begin:end], ways, convert)
            begin = end
        return np.asarray(found)


@final
@dataclass(frozen=True, eq=False)
class _Folded:
    """`count` channels alike but for their servers, of which each is on another node.

    `loads` are the first one's of all alike, of the quantities `kinds` alone. What a server's own node is loaded with,
    the column lists `here` of the first server's node say; what any other node is, those `there` of another's. Of both
    and of `own` (count, ...), the first are the columns, the second the resources.
    """

    count: int
    kinds: IntArray
    loads: dict[str, FloatArray]
    here: tuple[IntArray, IntArray]
    there: tuple[IntArray, IntArray]
    own: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, channels: Sequence[Projected], alike: Alike, columns: Columns) -> _Folded:
        first = channels[0].first
        members = next(nodes for nodes in alike.nodes if first in nodes)
        loads: dict[str, FloatArray] = {way: getattr(channels[0], way) for way in WAYS}
        kinds = np.flatnonzero((loads[PULL] + loads[PUSH] + loads[BACK]).any(axis=1))

        def owned(nodes: Sequence[str]) -> tuple[IntArray, IntArray]:
            resources = np.array([alike.own[node] for node in nodes], dtype=np.intp)
            return np.array([columns.of_resources(each) for each in resources.tolist()], dtype=np.intp), resources

        both, own = owned(members[:2]), owned([each.node for each in channels])
        here, there = ((both[0][place], both[1][place]) for place in range(2))
        return cls(len(channels), kinds, {way: each[kinds] for way, each in loads.items()}, here, there, own)

    def add(self, found: FloatArray, quantities: FloatArray, ways: Sequence[str], convert: Convert | None) -> None:
        """Add to `found` what `quantities` (..., count x kinds) load."""
        every = [self.loads[way] if convert is None else convert(self.loads[way]) for way in ways]
        loads, space = sum(every[1:], every[0]), 0 if convert is None else 1
        here, there, own = self.here[space], self.there[space], self.own[space]
        anywhere = loads.copy()
        anywhere[:, here] = loads[:, there]
        each = quantities.reshape(*quantities.shape[:-1], self.count, len(self.kinds))
        found += each.sum(axis=-2) @ anywhere
        found[..., own.ravel()] += (each @ (loads[:, here] - loads[:, there])).reshape(*each.shape[:-2], -1)


def _stacked(matrices: Sequence[FloatArray], columns: Columns) -> FloatArray:
    return np.concatenate(matrices) if matrices else np.zeros((0, columns.count))

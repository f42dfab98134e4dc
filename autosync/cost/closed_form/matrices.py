"""The loads of channels as matrices: in full, or once for channels that differ only in interchangeable servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from autosync.cost.closed_form.projection import Columns, ExchangeLoads
from autosync.cost.node_classes import NodeClasses
from autosync.numeric import FloatArray, IndexArray

Convert: TypeAlias = Callable[[FloatArray], FloatArray]
"""Converts loads (..., columns) to seconds (..., resources)."""

PULL, PUSH, BACK = WAYS = ("pull", "push", "back")

FEWEST_FOLDED = 8
"""The minimum number of channels that differ only in their server for which sharing their loads pays."""


@final
@dataclass(frozen=True, eq=False)
class Matrices:
    """The matrices of C channels. Channels times 8 quantities make rows; only rows with loads are kept."""

    rows: IndexArray
    """The kept rows, (r,): first the rows of `full`, then the rows of `folded`, group by group and channel by channel.
    """

    latency_seconds: FloatArray
    """The latency of each channel, (C,)."""

    full: dict[str, FloatArray]
    """For each way, a matrix with one row per kept row."""

    folded: tuple[_Folded, ...]
    """Groups of channels with shared loads."""

    @classmethod
    def of(cls, channels: Sequence[ExchangeLoads], alike: NodeClasses, columns: Columns) -> Matrices:
        """The matrices of one or more channels, in the given order."""
        groups: dict[int, list[int]] = {}
        for place, channel in enumerate(channels):
            groups.setdefault(id(channel.push), []).append(place)
        large = [places for places in groups.values() if len(places) >= FEWEST_FOLDED]
        rest = sorted({*range(len(channels))}.difference(*large))
        kinds = channels[0].push.shape[0]
        full = {
            way: _stack([channels[place].on_own_node(way, alike, columns) for place in rest], columns) for way in WAYS
        }
        loads = np.flatnonzero((full[PULL] + full[PUSH] + full[BACK]).any(axis=1))
        rows = [np.array(rest, dtype=np.intp)[loads // kinds] * kinds + loads % kinds]
        folded = []
        for places in large:
            group = _Folded.of([channels[place] for place in places], alike, columns)
            folded.append(group)
            rows.append((np.array(places, dtype=np.intp)[:, None] * kinds + group.kinds).ravel())
        latency = np.array([channel.latency_seconds for channel in channels])
        return cls(np.concatenate(rows), latency, {way: matrix[loads] for way, matrix in full.items()}, tuple(folded))

    def times(self, quantities: FloatArray, ways: Sequence[str], convert: Convert | None = None) -> FloatArray:
        """The loads of `quantities` (..., r) in these ways, (..., columns); or converted, (..., resources)."""
        matrices = [self.full[way] if convert is None else convert(self.full[way]) for way in ways]
        begin = len(matrices[0])
        loads = quantities[..., :begin] @ sum(matrices[1:], matrices[0])
        for group in self.folded:
            end = begin + group.count * len(group.kinds)
            group.add(loads, quantities[..., begin:end], ways, convert)
            begin = end
        return np.asarray(loads)


@final
@dataclass(frozen=True, eq=False)
class _Folded:
    """Channels that differ only in their interchangeable servers, every server on another node.

    `here`, `there` and `own` are pairs: columns, and resources.
    """

    count: int
    """The number of channels."""

    kinds: IndexArray
    """The quantities that load anything."""

    loads: dict[str, FloatArray]
    """The loads of a server on the first node of the class, for the quantities `kinds`."""

    here: tuple[IndexArray, IndexArray]
    """The first node's columns in `loads`, which hold the loads of a server's own node."""

    there: tuple[IndexArray, IndexArray]
    """A second node's columns in `loads`, which hold the loads of any other node of the class."""

    own: tuple[IndexArray, IndexArray]
    """The columns of each channel's node, (count, ...)."""

    @classmethod
    def of(cls, channels: Sequence[ExchangeLoads], alike: NodeClasses, columns: Columns) -> _Folded:
        first = channels[0].first
        members = next(nodes for nodes in alike.nodes if first in nodes)
        loads: dict[str, FloatArray] = {way: getattr(channels[0], way) for way in WAYS}
        kinds = np.flatnonzero((loads[PULL] + loads[PUSH] + loads[BACK]).any(axis=1))

        def columns_of(nodes: Sequence[str]) -> tuple[IndexArray, IndexArray]:
            resources = np.array([alike.columns[node] for node in nodes], dtype=np.intp)
            return np.array([columns.of_resources(of_node) for of_node in resources.tolist()], dtype=np.intp), resources

        first_two, servers = columns_of(members[:2]), columns_of([channel.node for channel in channels])
        here, there = ((first_two[0][place], first_two[1][place]) for place in range(2))
        return cls(len(channels), kinds, {way: matrix[kinds] for way, matrix in loads.items()}, here, there, servers)

    def add(self, total: FloatArray, quantities: FloatArray, ways: Sequence[str], convert: Convert | None) -> None:
        """Add the loads of `quantities` (..., count x kinds) to `total`."""
        matrices = [self.loads[way] if convert is None else convert(self.loads[way]) for way in ways]
        loads, space = sum(matrices[1:], matrices[0]), 0 if convert is None else 1
        here, there, own = self.here[space], self.there[space], self.own[space]
        # First all servers count as if every node of the class were another node; then the difference is added on each
        # server's own node.
        anywhere = loads.copy()
        anywhere[:, here] = loads[:, there]
        of_channels = quantities.reshape(*quantities.shape[:-1], self.count, len(self.kinds))
        total += of_channels.sum(axis=-2) @ anywhere
        total[..., own.ravel()] += (of_channels @ (loads[:, here] - loads[:, there])).reshape(
            *of_channels.shape[:-2], -1
        )


def _stack(matrices: Sequence[FloatArray], columns: Columns) -> FloatArray:
    return np.concatenate(matrices) if matrices else np.zeros((0, columns.count))

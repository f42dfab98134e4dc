"""Places: a cluster's resources in an order in which equally loaded resources lie side by side.

Most parts load a thousand interchangeable nodes equally. The part's seconds are then stored once for a run of places,
and a task processes the run with a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import ResourceColumns
from autosync.cost.node_classes import NodeClasses
from autosync.numeric import IndexArray
from autosync.spec import Link

SHORTEST_RUN = 24
"""The minimum length of a run. Array operations take about as long as a loop over this many places."""

NOTHING = -1
"""The group of a place that a part does not load."""


MOST_HOLES = 2
"""The maximum number of places inside a run that do not belong to it, such as one server among all nodes."""


class PlaceRun(NamedTuple):
    """The places from `first` to before `after`, except `holes`, all in one group."""

    first: int
    after: int
    group: int
    holes: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Pattern:
    """The group of each place; all places of a group have equal seconds."""

    groups: int
    """The number of groups."""

    singles: tuple[tuple[int, int], ...]
    """(place, group) of places outside runs."""

    runs: tuple[PlaceRun, ...] = ()

    @classmethod
    def of(cls, group_of: IndexArray, groups: int) -> Pattern:
        """The pattern of places whose groups, or `NOTHING`, are `group_of` (places,)."""
        begins = np.flatnonzero(np.diff(group_of, prepend=NOTHING - 1))
        ends, of_runs = np.append(begins[1:], len(group_of)).tolist(), group_of[begins].tolist()
        runs: list[PlaceRun] = []
        for first, after, group in zip(begins.tolist(), ends, of_runs, strict=True):
            before = runs[-1] if runs else None
            goes_on = before is not None and before.after + 1 == first and before.group == group
            if before is not None and goes_on and len(before.holes) < MOST_HOLES:
                runs[-1] = before._replace(after=after, holes=(*before.holes, before.after))
            elif group != NOTHING and after - first > 1:
                runs.append(PlaceRun(first, after, group))
        runs = [run for run in runs if run.after - run.first - len(run.holes) >= SHORTEST_RUN]
        alone = group_of != NOTHING
        for run in runs:
            alone[run.first : run.after] = False
            alone[list(run.holes)] = group_of[list(run.holes)] != NOTHING
        places = np.flatnonzero(alone)
        return cls(groups, tuple(zip(places.tolist(), group_of[places].tolist(), strict=True)), tuple(runs))

    def without_runs(self) -> Pattern:
        """The same pattern with single places only."""
        within = (
            (place, run.group) for run in self.runs for place in range(run.first, run.after) if place not in run.holes
        )
        return Pattern(self.groups, tuple(sorted((*self.singles, *within))))

    def group_of(self, places: int) -> IndexArray:
        """The group of each place, or `NOTHING`, (places,)."""
        groups = np.full(places, NOTHING, dtype=np.intp)
        for first, after, group, holes in self.runs:
            groups[first:after] = group
            groups[list(holes)] = NOTHING
        if self.singles:
            place, group_of = np.array(self.singles, dtype=np.intp).T
            groups[place] = group_of
        return groups


FEW, MOST_FOLDED = 48, 64
"""The maximum number of places that are not worth folding, and of patterns in which twins are searched. With more
patterns, some pattern loads nearly every place differently from its twins."""


def without_twins(patterns: Sequence[Pattern], places: int) -> tuple[Sequence[Pattern], int]:
    """The same patterns on fewer places, and the number of places left. Places that share a group in every pattern are
    twins, and the first of them stands for all."""
    if places <= FEW or len(patterns) > MOST_FOLDED:
        return patterns, places
    groups = np.array([pattern.group_of(places) for pattern in patterns])
    _, kept = number_columns((groups - NOTHING).astype(np.float64))
    kept = np.sort(kept)
    return [Pattern.of(row[kept], pattern.groups) for row, pattern in zip(groups, patterns, strict=True)], len(kept)


def number_columns(looks: npt.NDArray[np.float64]) -> tuple[IndexArray, IndexArray]:
    """Number the columns of `looks` (rows, columns); equal columns share a number, and columns of zeros have `NOTHING`.

    Return the number of each column, and the first column of each number.
    """
    looks = looks[looks.any(axis=1)]
    # Equal columns have equal sums under any weights. Unequal columns may collide, which is checked below.
    marks = (np.cos(np.arange(1, len(looks) + 1))[:, None] * looks).sum(axis=0)
    _, first, number = np.unique(marks, return_index=True, return_inverse=True)
    if (looks[:, first[number]] != looks).any():
        _, first, number = np.unique(looks, axis=1, return_index=True, return_inverse=True)
    loaded = looks[:, first].any(axis=0)
    numbers = np.where(loaded, np.cumsum(loaded) - 1, NOTHING)
    return numbers[number.ravel()], first[loaded]


@final
@dataclass(frozen=True, eq=False)
class Places:
    """The places of the columns of `resources`, with `replicas` on the cluster."""

    resources: ResourceColumns
    replicas: tuple[str, ...]

    @cached_property
    def columns(self) -> IndexArray:
        """The column at each place: links by kind, then nodes, servers and shared machines."""
        looks: list[tuple[Any, ...]] = [(0, *self._look(link)) for link in self.resources.cluster.links]
        nodes, held = self.resources.cluster.nodes, frozenset(self.replicas)
        on_node = {
            node.name: sum(str(device) in held for device in (*node.cpu_devices, *node.gpu_devices)) for node in nodes
        }
        looks += [(1, node.cores, on_node[node.name]) for node in nodes]
        looks += [(2, index, node.cores, on_node[node.name]) for node in nodes for index in range(node.workers)]
        looks += [(3,)] * len(self.resources.machines)
        return np.array(sorted(range(len(looks)), key=looks.__getitem__), dtype=np.intp)

    @cached_property
    def of_column(self) -> IndexArray:
        """The place of each column."""
        places: IndexArray = np.empty(len(self.columns), dtype=np.intp)
        places[self.columns] = np.arange(len(places))
        return places

    @cached_property
    def alike(self) -> NodeClasses:
        """The classes of interchangeable nodes."""
        return NodeClasses(self.resources, self.replicas)

    def swap(self, group_of: IndexArray, device: str, twin: str) -> IndexArray:
        """The groups of places after the nodes of two interchangeable devices are swapped."""
        nodes = [self.resources.node_of[name] for name in (device, twin)]
        if nodes[0] == nodes[1]:
            return group_of
        here, there = (self.of_column[self.alike.columns[node]] for node in nodes)
        swapped: IndexArray = group_of.copy()
        swapped[here], swapped[there] = group_of[there], group_of[here]
        return swapped

    def _look(self, link: Link) -> tuple[bool, bool, bool, float]:
        nodes = self.resources.node_column
        return link.source == link.target, link.source in nodes, link.target in nodes, link.bytes_per_second

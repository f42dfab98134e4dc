"""Places: a cluster's resources in an order in which those that are loaded alike lie side by side.

A thousand nodes that are alike are loaded alike by most parts: a part's seconds are then said once for a run of places,
and a task goes through the run in a few operations on an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.alike import Alike
from autosync.cost.capacity import Resources
from autosync.spec import Link

IntArray = npt.NDArray[np.intp]

SHORTEST_RUN = 24
"""The fewest places that are gone through as a run: an array's operations take as long as so many places, about."""

NOTHING = -1
"""The group of a place that a part does not load."""


MOST_HOLES = 2
"""The most places within a run that are not of it, as one server's are within all nodes'."""


class Run(NamedTuple):
    """The places from `first` to before `after` in one group, but for `holes`."""

    first: int
    after: int
    group: int
    holes: tuple[int, ...] = ()


@final
@dataclass(frozen=True)
class Pattern:
    """Which of a part's `groups` of equal seconds each place is in: `singles` are (place, group)."""

    groups: int
    singles: tuple[tuple[int, int], ...]
    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, group_of: IntArray, groups: int) -> Pattern:
        """The pattern of places (places,) that are in these groups, or in `NOTHING`."""
        begins = np.flatnonzero(np.diff(group_of, prepend=NOTHING - 1))
        ends, found = np.append(begins[1:], len(group_of)).tolist(), group_of[begins].tolist()
        runs: list[Run] = []
        for first, after, group in zip(begins.tolist(), ends, found, strict=True):
            before = runs[-1] if runs else None
            goes_on = before is not None and before.after + 1 == first and before.group == group
            if before is not None and goes_on and len(before.holes) < MOST_HOLES:
                runs[-1] = before._replace(after=after, holes=(*before.holes, before.after))
            elif group != NOTHING and after - first > 1:
                runs.append(Run(first, after, group))
        runs = [run for run in runs if run.after - run.first - len(run.holes) >= SHORTEST_RUN]
        alone = group_of != NOTHING
        for run in runs:
            alone[run.first : run.after] = False
            alone[list(run.holes)] = group_of[list(run.holes)] != NOTHING
        places = np.flatnonzero(alone)
        return cls(groups, tuple(zip(places.tolist(), group_of[places].tolist(), strict=True)), tuple(runs))

    def listed(self) -> Pattern:
        """The same without runs."""
        within = (
            (place, run.group) for run in self.runs for place in range(run.first, run.after) if place not in run.holes
        )
        return Pattern(self.groups, tuple(sorted((*self.singles, *within))))

    def group_of(self, places: int) -> IntArray:
        """The group of each place, or `NOTHING`, (places,)."""
        found = np.full(places, NOTHING, dtype=np.intp)
        for first, after, group, holes in self.runs:
            found[first:after] = group
            found[list(holes)] = NOTHING
        if self.singles:
            place, group_of = np.array(self.singles, dtype=np.intp).T
            found[place] = group_of
        return found


FEW, MOST_FOLDED = 48, 64
"""The most places that are not worth folding, and the most patterns in which twins are looked for: where there are
more, nearly every place is loaded by some other than its like."""


def without_twins(patterns: Sequence[Pattern], places: int) -> tuple[Sequence[Pattern], int]:
    """The same patterns on fewer places, and how many: of places that are in one group each time, the first stands for
    all."""
    if places <= FEW or len(patterns) > MOST_FOLDED:
        return patterns, places
    groups = np.array([each.group_of(places) for each in patterns])
    _, kept = numbered_alike((groups - NOTHING).astype(np.float64))
    kept = np.sort(kept)
    return [Pattern.of(row[kept], each.groups) for row, each in zip(groups, patterns, strict=True)], len(kept)


def numbered_alike(looks: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """A number for each of the columns of `looks` (rows, columns), which equal ones share, and the first column of each
    number; columns of zeros have `NOTHING`."""
    looks = looks[looks.any(axis=1)]
    # Equal columns have equal sums under any weights; which of these are equal is checked.
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

    resources: Resources
    replicas: tuple[str, ...]

    @cached_property
    def columns(self) -> IntArray:
        """The column at each place: links of one kind, then nodes, servers and shared machines."""
        looks: list[tuple[Any, ...]] = [(0, *self._look(link)) for link in self.resources.cluster.links]
        nodes, held = self.resources.cluster.nodes, frozenset(self.replicas)
        on_node = {
            node.name: sum(str(each) in held for each in (*node.cpu_devices, *node.gpu_devices)) for node in nodes
        }
        looks += [(1, node.cores, on_node[node.name]) for node in nodes]
        looks += [(2, index, node.cores, on_node[node.name]) for node in nodes for index in range(node.workers)]
        looks += [(3,)] * len(self.resources.machines)
        return np.array(sorted(range(len(looks)), key=looks.__getitem__), dtype=np.intp)

    @cached_property
    def of_column(self) -> IntArray:
        """The place of each column."""
        found: IntArray = np.empty(len(self.columns), dtype=np.intp)
        found[self.columns] = np.arange(len(found))
        return found

    @cached_property
    def alike(self) -> Alike:
        """Which nodes can change places."""
        return Alike(self.resources, self.replicas)

    def exchanged(self, group_of: IntArray, one: str, other: str) -> IntArray:
        """Groups of places when two devices that are alike change places, with all else of their nodes."""
        nodes = [self.resources.node_of[each] for each in (one, other)]
        if nodes[0] == nodes[1]:
            return group_of
        here, there = (self.of_column[self.alike.own[node]] for node in nodes)
        found: IntArray = group_of.copy()
        found[here], found[there] = group_of[there], group_of[here]
        return found

    def _look(self, link: Link) -> tuple[bool, bool, bool, float]:
        nodes = self.resources.node_column
        return link.source == link.target, link.source in nodes, link.target in nodes, link.bytes_per_second

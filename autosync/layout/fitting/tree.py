"""Trees among nodes: the path of sums into a node, or of a mean out of it, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, final

from autosync.layout.fitting.network import Pair

Direction: TypeAlias = Literal["in", "out"]


@final
@dataclass(frozen=True)
class Tree:
    """A tree into or out of `root`. `edges` are (node, parent) for all other nodes, in order of node."""

    root: int
    direction: Direction
    edges: tuple[Pair, ...]

    @classmethod
    def of(cls, root: int, direction: Direction, parents: Mapping[int, int]) -> Tree:
        return cls(root, direction, tuple(sorted(parents.items())))

    @cached_property
    def arcs(self) -> tuple[Pair, ...]:
        """(sender, receiver) of each edge."""
        return self.edges if self.direction == "in" else tuple((parent, child) for child, parent in self.edges)

    @cached_property
    def rounds(self) -> tuple[tuple[Pair, ...], ...]:
        """The arcs of each round. A round has all arcs of one depth, so no message leaves earlier than it must."""
        parents, depth = dict(self.edges), {self.root: 0}
        for node in parents:
            path = [node]
            while path[-1] not in depth:
                path.append(parents[path[-1]])
            for below, descendant in enumerate(reversed(path[:-1]), depth[path[-1]] + 1):
                depth[descendant] = below
        levels: list[list[Pair]] = [[] for _ in range(max(depth.values()))]
        for (child, _), arc in zip(self.edges, self.arcs, strict=True):
            levels[depth[child] - 1].append(arc)
        return tuple(map(tuple, levels if self.direction == "out" else reversed(levels)))

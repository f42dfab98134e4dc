"""Least branchings: the cheapest tree that leads from one node to all others (Chu and Liu 1965, Edmonds 1967)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from autosync.layout.fitting.network import Pair

Costs: TypeAlias = Sequence[Sequence[float]]
"""`costs[u][v]` is what an arc from u to v costs."""

_Arcs: TypeAlias = Mapping[Pair, tuple[float, Pair]]
"""The cost of each arc between nodes, of which some stand for cycles, and the arc that it stands for itself."""


def least_branching(costs: Costs, root: int) -> dict[int, int]:
    """The parent of each node but `root` in the tree away from `root` whose arcs cost least; first arcs, if equal."""
    count = len(costs)
    arcs = {(u, v): (costs[u][v], (u, v)) for v in range(count) for u in range(count) if u != v != root}
    return {child: parent for parent, child in sorted(_chosen(arcs, root, count))}


def _chosen(arcs: _Arcs, root: int, fresh: int) -> set[Pair]:
    """The arcs of the cheapest tree; `fresh` is a number that no node has."""
    best: dict[int, tuple[float, int]] = {}
    for (u, v), (cost, _) in arcs.items():
        best[v] = min(best.get(v, (cost, u)), (cost, u))
    cycle = _cycle({child: parent for child, (_, parent) in best.items()}, root)
    if not cycle:
        return {arcs[parent, child][1] for child, (_, parent) in best.items()}
    # The cycle becomes one node; an arc into it costs what it adds over that arc of the cycle which it makes needless.
    contracted: dict[Pair, tuple[float, Pair]] = {}
    enters: dict[Pair, int] = {}
    for (u, v), (cost, stands_for) in arcs.items():
        if u in cycle and v in cycle:
            continue
        ends = fresh if u in cycle else u, fresh if v in cycle else v
        added = (cost - best[v][0] if v in cycle else cost), stands_for
        contracted[ends] = min(contracted.get(ends, added), added)
        if v in cycle:
            enters[stands_for] = v
    chosen = _chosen(contracted, root, fresh + 1)
    entered = next(enters[arc] for arc in chosen if arc in enters)
    return chosen | {arcs[best[v][1], v][1] for v in cycle if v != entered}


def _cycle(parents: Mapping[int, int], root: int) -> frozenset[int]:
    """A cycle among the parents; none if they are a tree."""
    done = {root}
    for start in parents:
        path: dict[int, None] = {}
        here = start
        while here not in done and here not in path:
            path[here] = None
            here = parents[here]
        if here in path:
            order = list(path)
            return frozenset(order[order.index(here) :])
        done |= path.keys()
    return frozenset()

"""Minimum-cost arborescences: the cheapest tree from one node to all others (Chu and Liu 1965, Edmonds 1967)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from autosync.layout.fitting.network import Pair

Costs: TypeAlias = Sequence[Sequence[float]]
"""`costs[u][v]` is the cost of an arc from u to v."""

_Arcs: TypeAlias = Mapping[Pair, tuple[float, Pair]]
"""(u, v) -> (cost, arc). Some nodes stand for contracted cycles; `arc` is the original arc behind (u, v)."""


def least_branching(costs: Costs, root: int) -> dict[int, int]:
    """The parent of each node except `root` in the cheapest tree away from `root`. Among equal arcs, the first wins."""
    count = len(costs)
    arcs = {(u, v): (costs[u][v], (u, v)) for v in range(count) for u in range(count) if u != v != root}
    return {child: parent for parent, child in sorted(_cheapest_arcs(arcs, root, count))}


def _cheapest_arcs(arcs: _Arcs, root: int, fresh: int) -> set[Pair]:
    """The arcs of the cheapest tree. `fresh` is a number that no node has."""
    best: dict[int, tuple[float, int]] = {}
    for (u, v), (cost, _) in arcs.items():
        best[v] = min(best.get(v, (cost, u)), (cost, u))
    cycle = _cycle({child: parent for child, (_, parent) in best.items()}, root)
    if not cycle:
        return {arcs[parent, child][1] for child, (_, parent) in best.items()}
    # The cycle is contracted to one node. The cost of an arc into the cycle is reduced by the cost of the cycle's arc
    # to the same node, because the new arc replaces that arc.
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
    chosen = _cheapest_arcs(contracted, root, fresh + 1)
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

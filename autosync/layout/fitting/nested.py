"""Trees that follow a topology's groups: what comes of a group meets on one of its members before it leaves."""

from __future__ import annotations

from collections.abc import Iterator

from autosync.layout.fitting.branching import Costs
from autosync.layout.fitting.packing import Pricing
from autosync.layout.fitting.tree import Direction, Tree
from autosync.layout.topology import Group, Topology


def nodes_of(topology: Topology) -> tuple[str, ...]:
    """The nodes of the replicas, in the order in which they appear."""
    return tuple(dict.fromkeys(topology.nodes))


def node_group(topology: Topology) -> Group:
    """The topology's groups, of nodes by their places in `nodes_of` instead of replicas."""
    place = {node: number for number, node in enumerate(nodes_of(topology))}

    def of(group: Group) -> Group:
        members = tuple(sorted({place[topology.nodes[each]] for each in group.members}))
        return Group(members, tuple(map(of, group.parts)) if len(members) > 1 else ())

    return of(topology.root)


def direct_trees(count: int) -> Iterator[Tree]:
    """Trees in which each of `count` nodes sends to the root itself, and gets from it."""
    for root in range(count):
        parents = {each: root for each in range(count) if each != root}
        yield from (Tree.of(root, "in", parents), Tree.of(root, "out", parents))


def nested_trees(group: Group) -> Iterator[Tree]:
    """Trees by groups, in which members take turns to be who sends for their group."""
    for root in group.members:
        parents = _in_turn(group, root, root)
        yield from (Tree.of(root, "in", parents), Tree.of(root, "out", parents))


def _in_turn(group: Group, at: int, turn: int) -> dict[int, int]:
    parents: dict[int, int] = {}
    for part in group.parts:
        first = at if at in part.members else part.members[turn % len(part.members)]
        parents |= _in_turn(part, first, turn) | ({first: at} if first != at else {})
    return parents


def nested_pricing(group: Group) -> Pricing:
    """Pricing of trees in which a group's members send to the root through one of them, or each by itself."""

    def price(costs: Costs, root: int, direction: Direction) -> Tree:
        def cost(child: int, parent: int) -> float:
            return costs[child][parent] if direction == "in" else costs[parent][child]

        known: dict[tuple[tuple[int, ...], int], tuple[float, dict[int, int]]] = {}

        def cheapest_to(at: int, inside: Group) -> tuple[float, dict[int, int]]:
            key = inside.members, at
            if key not in known:
                total, parents = 0.0, dict[int, int]()
                for part in inside.parts:
                    least, found = min(ways(at, part), key=lambda way: way[0])
                    total, parents = total + least, parents | found
                known[key] = total, parents
            return known[key]

        def ways(at: int, part: Group) -> Iterator[tuple[float, dict[int, int]]]:
            if at in part.members:
                yield cheapest_to(at, part)
                return
            for first in part.members:
                inside, parents = cheapest_to(first, part)
                yield inside + cost(first, at), parents | {first: at}
            yield sum(cost(each, at) for each in part.members), dict.fromkeys(part.members, at)

        return Tree.of(root, direction, cheapest_to(root, group)[1])

    return price

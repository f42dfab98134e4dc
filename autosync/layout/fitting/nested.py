"""Trees that follow a topology's groups: the sums of a group meet on one of its members before they leave the group."""

from __future__ import annotations

from collections.abc import Iterator

from autosync.layout.fitting.branching import Costs
from autosync.layout.fitting.packing import Pricing
from autosync.layout.fitting.tree import Direction, Tree
from autosync.layout.topology import Group, Topology


def nodes_of(topology: Topology) -> tuple[str, ...]:
    """The nodes of the replicas, in order of first appearance."""
    return tuple(dict.fromkeys(topology.nodes))


def node_group(topology: Topology) -> Group:
    """The topology's groups with nodes instead of replicas as members. Nodes are numbered as in `nodes_of`."""
    place = {node: number for number, node in enumerate(nodes_of(topology))}

    def of(group: Group) -> Group:
        members = tuple(sorted({place[topology.nodes[replica]] for replica in group.members}))
        return Group(members, tuple(map(of, group.parts)) if len(members) > 1 else ())

    return of(topology.root)


def direct_trees(count: int) -> Iterator[Tree]:
    """Trees in which all of `count` nodes send directly to the root, and trees in which the root sends directly."""
    for root in range(count):
        parents = {node: root for node in range(count) if node != root}
        yield from (Tree.of(root, "in", parents), Tree.of(root, "out", parents))


def group_trees(group: Group) -> Iterator[Tree]:
    """Trees by groups. The member that sends for its group changes with the root."""
    for root in group.members:
        parents = _in_turn(group, root, root)
        yield from (Tree.of(root, "in", parents), Tree.of(root, "out", parents))


def _in_turn(group: Group, at: int, turn: int) -> dict[int, int]:
    parents: dict[int, int] = {}
    for part in group.parts:
        first = at if at in part.members else part.members[turn % len(part.members)]
        parents |= _in_turn(part, first, turn) | ({first: at} if first != at else {})
    return parents


def group_pricing(group: Group) -> Pricing:
    """A pricing of trees in which a group's members send to the root through one of them, or all directly."""

    def price(costs: Costs, root: int, direction: Direction) -> Tree:
        def cost(child: int, parent: int) -> float:
            return costs[child][parent] if direction == "in" else costs[parent][child]

        known: dict[tuple[tuple[int, ...], int], tuple[float, dict[int, int]]] = {}

        def cheapest_to(at: int, inside: Group) -> tuple[float, dict[int, int]]:
            key = inside.members, at
            if key not in known:
                total, parents = 0.0, dict[int, int]()
                for part in inside.parts:
                    least, below = min(ways(at, part), key=lambda way: way[0])
                    total, parents = total + least, parents | below
                known[key] = total, parents
            return known[key]

        def ways(at: int, part: Group) -> Iterator[tuple[float, dict[int, int]]]:
            if at in part.members:
                yield cheapest_to(at, part)
                return
            for first in part.members:
                inside, parents = cheapest_to(first, part)
                yield inside + cost(first, at), parents | {first: at}
            yield sum(cost(member, at) for member in part.members), dict.fromkeys(part.members, at)

        return Tree.of(root, direction, cheapest_to(root, group)[1])

    return price

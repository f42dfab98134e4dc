"""Describes all-reduces on a cluster in words: shares, trees and pieces, and their distance from the bound."""

from collections.abc import Iterator, Mapping, Sequence

from autosync.layout.all_reduce import layout_of
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.fitting.nested import nodes_of
from autosync.layout.fitting.pieces import Way
from autosync.layout.fitting.schedule import DIRECT, FITTED, MOST_LISTED, Schedule, best_schedule, direct_on
from autosync.layout.fitting.schedule_cost import CostEstimator
from autosync.layout.fitting.tree import Tree
from autosync.layout.moves import ELEMENTS
from autosync.layout.topology import Topology
from autosync.spec import AllReduce, ClusterSpec, Strategy
from autosync.words.quantities import count_of
from autosync.words.strategy import algorithm_in_words

MOST_WAYS = 6
"""The most pairs of trees that are listed."""


def schedule_lines(strategy: Strategy, cluster: ClusterSpec) -> list[str]:
    """Lines about each all-reduce algorithm of the strategy that consists of moves; empty if replicas share a node."""
    topology = Topology(cluster, strategy.replicas)
    reduced = dict.fromkeys(
        shard.algorithm for _, _, shard in strategy.shards() if isinstance(shard, AllReduce) and not shard.gathers
    )
    bound = trees_bound(topology)
    if not reduced or not bound or len(topology) > MOST_LISTED:
        return []
    lines = [f"All-reduces: with these links between nodes, no algorithm takes less than {_ms(bound)} per MB."]
    for algorithm in reduced:
        lines += _lines_of(algorithm, topology, bound)
    return lines


def _lines_of(algorithm: str, topology: Topology, bound: float) -> Iterator[str]:
    moves_of, name = layout_of(algorithm).moves, algorithm_in_words(algorithm)
    if moves_of is None:
        return
    judged = CostEstimator(topology, {}).judged(moves_of(topology, ELEMENTS, 0))[0]
    schedule = best_schedule(topology) if algorithm == FITTED else direct_on(topology)
    identity = ""
    if algorithm == FITTED and schedule.known is not None:
        identity = f", which here is {algorithm_in_words(schedule.known)}"
        schedule = direct_on(topology) if schedule.known == DIRECT else schedule
    yield (
        f"{name[0].upper()}{name[1:]}{identity}: {_ms(judged.waiting)} per MB, {judged.waiting / bound:.2f} x the "
        f"bound, in {count_of(judged.messages, 'message')} per bucket; the busiest link is busy for {_ms(judged.busy)} "
        "of it."
    )
    if algorithm in (FITTED, DIRECT):
        yield from _schedule_lines(schedule, topology)


def _schedule_lines(schedule: Schedule, topology: Topology) -> Iterator[str]:
    pieces = count_of(schedule.pieces, "piece")
    if schedule.algorithm is not None:
        if schedule.pieces > 1:
            yield f"  in {pieces}, each by {algorithm_in_words(schedule.algorithm)} and a round after the previous one"
        return
    delay = ", each a round after the previous one" if schedule.pieces > 1 else ""
    yield f"  in {pieces}{delay}; shares of each piece:"
    names = nodes_of(topology)
    ways = sorted(schedule.ways, key=lambda way: -way.share)
    for way in ways[:MOST_WAYS]:
        yield f"  {100 * way.share:5.1f} %  {_way_in_words(way, names)}"
    if ways[MOST_WAYS:]:
        rest = sum(way.share for way in ways[MOST_WAYS:])
        yield f"  {100 * rest:5.1f} %  on {count_of(len(ways) - MOST_WAYS, 'more root')}"


def _way_in_words(way: Way, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"on a replica of {names[0]}"
    there, back = (_children_in_words(tree, tree.root, names) for tree in (way.into, way.out))
    return f"{names[way.into.root]} <- {there}; -> {'the same' if there == back else back}"


def _children_in_words(tree: Tree, node: int, names: Sequence[str]) -> str:
    """The children of a node, each followed by its children in brackets."""
    below: Mapping[int, list[int]] = {index: [] for index in range(len(names))}
    for child, parent in tree.edges:
        below[parent].append(child)

    def describe(index: int) -> str:
        return names[index] + (f" ({', '.join(map(describe, below[index]))})" if below[index] else "")

    return ", ".join(map(describe, below[node]))


def _ms(seconds_a_byte: float) -> str:
    return f"{1e9 * seconds_a_byte:.3g} ms"

"""How all-reduces go on a cluster in words: shares, trees and pieces, and how near links come to what they can."""

from collections.abc import Iterator, Mapping, Sequence

from autosync.layout.all_reduce import laid_out
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.fitting.judging import Judge
from autosync.layout.fitting.nested import nodes_of
from autosync.layout.fitting.pieces import Way
from autosync.layout.fitting.schedule import DIRECT, FITTED, MOST_LISTED, Schedule, direct_on, fitted_to
from autosync.layout.fitting.tree import Tree
from autosync.layout.moves import ELEMENTS
from autosync.layout.topology import Topology
from autosync.spec import AllReduce, ClusterSpec, Strategy
from autosync.words.quantities import counted
from autosync.words.strategy import algorithm_in_words

MOST_WAYS = 6
"""The most pairs of trees that are drawn."""


def schedule_lines(strategy: Strategy, cluster: ClusterSpec) -> list[str]:
    """Lines on each all-reduce algorithm of the strategy that is made of moves; none where replicas share one node."""
    topology = Topology(cluster, strategy.replicas)
    reduced = dict.fromkeys(
        each.algorithm for _, _, each in strategy.shards() if isinstance(each, AllReduce) and not each.gathers
    )
    bound = trees_bound(topology)
    if not reduced or not bound or len(topology) > MOST_LISTED:
        return []
    lines = [f"All-reduces: no links between nodes take less than {_ms(bound)} a MB, in any way of adding up."]
    for algorithm in reduced:
        lines += _lines_of(algorithm, topology, bound)
    return lines


def _lines_of(algorithm: str, topology: Topology, bound: float) -> Iterator[str]:
    moves_of, name = laid_out(algorithm).moves, algorithm_in_words(algorithm)
    if moves_of is None:
        return
    judged = Judge(topology, {}).judged(moves_of(topology, ELEMENTS, 0))[0]
    schedule = fitted_to(topology) if algorithm == FITTED else direct_on(topology)
    said = ""
    if algorithm == FITTED and schedule.known is not None:
        said = f", which here is {algorithm_in_words(schedule.known)}"
        schedule = direct_on(topology) if schedule.known == DIRECT else schedule
    yield (
        f"{name[0].upper()}{name[1:]}{said}: {_ms(judged.waiting)} a MB, {judged.waiting / bound:.2f} x that, in "
        f"{counted(judged.messages, 'message')} a bucket; the busiest link is busy for {_ms(judged.busy)} of it."
    )
    if algorithm in (FITTED, DIRECT):
        yield from _schedule_lines(schedule, topology)


def _schedule_lines(schedule: Schedule, topology: Topology) -> Iterator[str]:
    pieces = counted(schedule.pieces, "piece")
    if schedule.algorithm is not None:
        if schedule.pieces > 1:
            yield f"  in {pieces}, each by {algorithm_in_words(schedule.algorithm)}, one a round behind another"
        return
    yield f"  in {pieces}{', one a round behind another' if schedule.pieces > 1 else ''}, of each:"
    names = nodes_of(topology)
    ways = sorted(schedule.ways, key=lambda way: -way.share)
    for way in ways[:MOST_WAYS]:
        yield f"  {100 * way.share:5.1f} %  {_way_in_words(way, names)}"
    if ways[MOST_WAYS:]:
        rest = sum(way.share for way in ways[MOST_WAYS:])
        yield f"  {100 * rest:5.1f} %  on {counted(len(ways) - MOST_WAYS, 'more root')}"


def _way_in_words(way: Way, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"on a replica of {names[0]}"
    there, back = (_children_in_words(tree, tree.root, names) for tree in (way.into, way.out))
    return f"{names[way.into.root]} <- {there}; -> {'the same' if there == back else back}"


def _children_in_words(tree: Tree, node: int, names: Sequence[str]) -> str:
    """The children of a node, each with its own in brackets."""
    below: Mapping[int, list[int]] = {each: [] for each in range(len(names))}
    for child, parent in tree.edges:
        below[parent].append(child)

    def said(each: int) -> str:
        return names[each] + (f" ({', '.join(map(said, below[each]))})" if below[each] else "")

    return ", ".join(map(said, below[node]))


def _ms(seconds_a_byte: float) -> str:
    return f"{1e9 * seconds_a_byte:.3g} ms"

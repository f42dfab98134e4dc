"""Chooses the probes, and the probes that run side by side: never two over one link."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec
from trials.probe.flows import Ends, Probe, ProbeFlow, ends_of, fair_rates, links_crossed

FEW_NODES = 16
"""The largest number of nodes for which probes run one after another, and a fan reaches all nodes.

Nodes that share a machine's cores, as emulated ones do, would otherwise disturb each other's probes.
"""
ALL_PAIRS, SOME_PAIRS = 5, 8
"""The largest number of nodes for which every pair is probed, and for which nodes 1, 2, 4, ... apart are probed.

Beyond that, neighbours are probed, up to `FEW_NODES`.
"""
FAN = 4
"""The number of partners that fill a node's link, among many nodes."""
BETWEEN_SWITCHES = 8
"""The largest number of plain pairs that may cross one link between switches; more would have to wait for each
other.
"""

Item = TypeVar("Item")


def loopback_probes(cluster: ClusterSpec) -> tuple[Probe, ...]:
    """Return one probe for every node with several workers; a single worker sends nothing over its loopback."""
    return tuple(Probe((ProbeFlow(node.name, node.name),)) for node in cluster.nodes if node.workers > 1)


def pair_probes(cluster: ClusterSpec) -> tuple[Probe, ...]:
    """Return the pairs of nodes to probe.

    For each node's link, the pair with the shortest route over it, within its rack if it has one. Then all pairs for
    few nodes, or else each node with those 1 (and 2, 4, ...) further on, nearest first.
    """
    names = [node.name for node in cluster.nodes]
    count = len(names)
    switches = set(cluster.switches)
    links = fillable_links(cluster).items()
    nearest = [pairs[0] for ends, pairs in links if not switches.issuperset(ends)]
    further = [
        (name, names[(index + offset) % count]) for offset in _offsets(count) for index, name in enumerate(names)
    ]
    used: Counter[Ends] = Counter()
    probes = []
    for source, target in dict.fromkeys([*nearest, *further]):
        crossed = [ends_of(link) for link in cluster.route(source, target)]
        between = [ends for ends in crossed if switches.issuperset(ends)]
        busy = any(used[ends] >= BETWEEN_SWITCHES for ends in between)
        if not busy or any(not used[ends] for ends in crossed):
            used.update(crossed)
            probes.append(Probe((ProbeFlow(source, target),)))
    return tuple(probes)


def fillable_links(cluster: ClusterSpec) -> dict[Ends, list[tuple[str, str]]]:
    """Return the links on some route between two nodes, in the cluster's order, with the pairs whose routes cross them.

    Pairs are ordered by length of route, then by distance in the ring of nodes.
    """
    crossing: dict[Ends, list[tuple[str, str]]] = {ends_of(link): [] for link in cluster.links}
    for pair in sorted(_pairs(cluster), key=lambda pair: len(cluster.route(*pair))):
        for link in cluster.route(*pair):
            crossing[ends_of(link)].append(pair)
    return {link: pairs for link, pairs in crossing.items() if pairs}


def fill_probe(
    cluster: ClusterSpec, link: Ends, pairs: Sequence[tuple[str, str]], gbit_per_s: Mapping[Ends, float]
) -> Probe:
    """Return the probe to fill `link`: a fan out or in for a node's link, all nodes behind it for a link between
    switches.

    `pairs` are those whose routes cross `link`, as returned by `fillable_links`. Each flow sends in proportion to its
    max-min fair rate when links have `gbit_per_s`; missing links, and `link`, do not limit. The flows then end
    together, and `link` is as full as the links around it allow.
    """
    flows = tuple(ProbeFlow(source, target) for source, target in _spread(pairs, few=len(cluster.nodes) <= FEW_NODES))
    routes = [[ends_of(link) for link in cluster.route(flow.source, flow.target)] for flow in flows]
    rates = fair_rates(routes, {ends: rate for ends, rate in gbit_per_s.items() if ends != link})
    return Probe(
        tuple(ProbeFlow(flow.source, flow.target, rate) for flow, rate in zip(flows, rates, strict=True)), link
    )


def rounds(
    cluster: ClusterSpec, items: Sequence[Item], flows: Callable[[Item], Sequence[ProbeFlow]]
) -> Iterator[tuple[Item, ...]]:
    """Divide `items` into rounds: one item a round for few nodes, otherwise items that share no link."""
    if len(cluster.nodes) <= FEW_NODES:
        yield from ((item,) for item in items)
        return
    taken: list[set[Ends]] = []
    members: list[list[Item]] = []
    for item in items:
        crossed = set(links_crossed(cluster, flows(item)))
        place = next((index for index, links in enumerate(taken) if not links & crossed), len(taken))
        if place == len(taken):
            taken.append(set())
            members.append([])
        taken[place] |= crossed
        members[place].append(item)
    yield from map(tuple, members)


def _offsets(count: int) -> list[int]:
    if count <= ALL_PAIRS:
        return list(range(1, count))
    if SOME_PAIRS < count <= FEW_NODES:
        return [1]
    return [1 << power for power in range((count - 1).bit_length()) if 1 << power < count]


def _pairs(cluster: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield all ordered pairs of nodes, those nearest in the ring of nodes first."""
    names = [node.name for node in cluster.nodes]
    for offset in range(1, len(names)):
        for index, source in enumerate(names):
            yield source, names[(index + offset) % len(names)]


def _spread(pairs: Sequence[tuple[str, str]], few: bool) -> list[tuple[str, str]]:
    """Choose enough `pairs` that each source and each target takes part; for a fan among many nodes, choose `FAN`."""
    sources, targets = (list(dict.fromkeys(ends)) for ends in zip(*pairs, strict=True))
    wanted = max(len(sources), len(targets))
    if not few and min(len(sources), len(targets)) == 1:
        wanted = min(wanted, FAN)
    known = set(pairs)
    chosen: dict[tuple[str, str], None] = {}
    for turn in range(wanted):
        source, target = sources[turn % len(sources)], targets[turn % len(targets)]
        if (source, target) not in known:
            target = next(end for start, end in pairs if start == source)
        chosen[source, target] = None
    return list(chosen)


Result = TypeVar("Result")


def run_round(work: Mapping[str, Callable[[], Result]], answer_seconds: float) -> dict[str, Result]:
    """Run each piece of `work` in its own thread; return the results by name.

    Raises `ClusterError` with the name of a piece that could not reach a worker, or has no answer after
    `answer_seconds`. A hanging thread is left behind, because TensorFlow cannot end its call; end the process.
    """
    answers: queue.SimpleQueue[tuple[str, Result | BaseException]] = queue.SimpleQueue()

    def answer(name: str, find: Callable[[], Result]) -> None:
        try:
            answers.put((name, find()))
        except BaseException as error:  # the waiting thread raises it
            answers.put((name, error))

    for name, find in work.items():
        threading.Thread(target=answer, args=(name, find), name=f"probe {name}", daemon=True).start()
    results: dict[str, Result] = {}
    while len(results) < len(work):
        try:
            name, result = answers.get(timeout=answer_seconds)
        except queue.Empty:
            silent = next(name for name in work if name not in results)
            raise ClusterError(
                f"Probing {silent} got no answer within {answer_seconds:g} s; check that these nodes live and reach "
                "each other, then probe again."
            ) from None
        if isinstance(result, ClusterError):
            raise ClusterError(f"Probing {name} failed: {result}") from result
        if isinstance(result, BaseException):
            raise result
        results[name] = result
    return results

"""Choosing which probes are made, and which of them side by side: never two over one link."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec
from trials.probe.flows import Ends, Flow, Probe, ends_of, fair_rates, links_crossed

FEW_NODES = 16
"""The most nodes with which probes are made one after the other, and a fan reaches all of them.

Nodes that share a machine's cores, as emulated ones do, would disturb each other's probes otherwise.
"""
ALL_PAIRS, SOME_PAIRS = 5, 8
"""The most nodes with which every pair is probed, and those 1, 2, 4, ... apart; then neighbours, up to `FEW_NODES`."""
FAN = 4
"""The number of partners that, among many nodes, are to fill a node's link."""
BETWEEN_SWITCHES = 8
"""The most plain pairs that may cross one link between switches; more would have to wait for each other."""

Item = TypeVar("Item")


def loopback_probes(cluster: ClusterSpec) -> tuple[Probe, ...]:
    """One probe for every node with several workers; a single worker's loopback carries nothing between workers."""
    return tuple(Probe((Flow(node.name, node.name),)) for node in cluster.nodes if node.workers > 1)


def pair_probes(cluster: ClusterSpec) -> tuple[Probe, ...]:
    """Pairs of nodes: for each node's link the pair with the shortest route over it, within its rack if it has one;
    then all for few nodes, else each node and those 1 (and 2, 4, ...) further on, nearest first.
    """
    names = [node.name for node in cluster.nodes]
    count = len(names)
    switches = set(cluster.switches)
    links = fillable_links(cluster).items()
    nearest = [pairs[0] for ends, pairs in links if not switches.issuperset(ends)]
    further = [(each, names[(at + offset) % count]) for offset in _offsets(count) for at, each in enumerate(names)]
    used: Counter[Ends] = Counter()
    probes = []
    for source, target in dict.fromkeys([*nearest, *further]):
        crossed = [ends_of(link) for link in cluster.route(source, target)]
        between = [ends for ends in crossed if switches.issuperset(ends)]
        busy = any(used[ends] >= BETWEEN_SWITCHES for ends in between)
        if not busy or any(not used[ends] for ends in crossed):
            used.update(crossed)
            probes.append(Probe((Flow(source, target),)))
    return tuple(probes)


def fillable_links(cluster: ClusterSpec) -> dict[Ends, list[tuple[str, str]]]:
    """Links on some route between two nodes, in the cluster's order, with the pairs whose routes cross them.

    Pairs are in order: short routes first, then nearest in the ring of nodes.
    """
    found: dict[Ends, list[tuple[str, str]]] = {ends_of(link): [] for link in cluster.links}
    for pair in sorted(_pairs(cluster), key=lambda pair: len(cluster.route(*pair))):
        for link in cluster.route(*pair):
            found[ends_of(link)].append(pair)
    return {link: pairs for link, pairs in found.items() if pairs}


def fill_probe(
    cluster: ClusterSpec, link: Ends, pairs: Sequence[tuple[str, str]], gbit_per_s: Mapping[Ends, float]
) -> Probe:
    """The probe meant to fill `link`: a node's by a fan out or in, one between switches by all nodes behind it.

    `pairs` are those whose routes cross `link`, as `fillable_links` gives them.
    What each flow sends is in proportion to the rate it gets when links have `gbit_per_s` (those not told, and `link`,
    no limit) and are shared max-min fairly: then no flow goes on long after the others, and `link` is as full as the
    links around it allow.
    """
    flows = tuple(Flow(source, target) for source, target in _spread(pairs, few=len(cluster.nodes) <= FEW_NODES))
    routes = [[ends_of(each) for each in cluster.route(flow.source, flow.target)] for flow in flows]
    rates = fair_rates(routes, {ends: rate for ends, rate in gbit_per_s.items() if ends != link})
    return Probe(tuple(Flow(flow.source, flow.target, rate) for flow, rate in zip(flows, rates, strict=True)), link)


def rounds(
    cluster: ClusterSpec, items: Sequence[Item], flows: Callable[[Item], Sequence[Flow]]
) -> Iterator[tuple[Item, ...]]:
    """`items` in rounds: one each for few nodes, else all that share no link with another one of the round."""
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
    """Choose so many of the `pairs` that each source and each target has its turn; of a fan among many nodes, a few."""
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


Found = TypeVar("Found")


def run_round(work: Mapping[str, Callable[[], Found]], answer_seconds: float) -> dict[str, Found]:
    """What each piece of `work` finds, by its name, each in a thread of its own.

    Raises `ClusterError` with the name of the one that could not reach a worker or has no answer after
    `answer_seconds`. A thread that hangs is left behind, since TensorFlow offers no way to end its call; end the
    process.
    """
    answers: queue.SimpleQueue[tuple[str, Found | BaseException]] = queue.SimpleQueue()

    def answer(name: str, find: Callable[[], Found]) -> None:
        try:
            answers.put((name, find()))
        except BaseException as error:  # handed to the waiting thread, which raises it
            answers.put((name, error))

    for name, find in work.items():
        threading.Thread(target=answer, args=(name, find), name=f"probe {name}", daemon=True).start()
    found: dict[str, Found] = {}
    while len(found) < len(work):
        try:
            name, answered = answers.get(timeout=answer_seconds)
        except queue.Empty:
            silent = next(name for name in work if name not in found)
            raise ClusterError(
                f"Probing {silent} got no answer within {answer_seconds:g} s; see that these nodes live and reach each "
                "other, then probe again."
            ) from None
        if isinstance(answered, ClusterError):
            raise ClusterError(f"Probing {name} failed: {answered}") from answered
        if isinstance(answered, BaseException):
            raise answered
        found[name] = answered
    return found

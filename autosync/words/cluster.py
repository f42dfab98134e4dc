"""Describes a cluster in words: nodes that are alike, and links that are alike, share a line."""

import re
import statistics
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from autosync.spec import ClusterSpec, Figure, KeptPace, Link, Node, Pace

MOST_NAMED = 4
"""The most names without consecutive numbers that are listed; further names are counted."""

Element = TypeVar("Element")


def cluster_lines(cluster: ClusterSpec) -> Iterator[str]:
    """Yield lines for nodes, then for links with the sources of their figures; loopbacks come last."""
    for nodes in _group_by_key(((node.machine, node.workers), node) for node in cluster.nodes):
        yield _node_line(nodes)
    uplinks = _uplinks(cluster)
    by_switch = _group_by_key(((up.target, _alike(up), _alike(down)), (up, down)) for up, down in uplinks)
    for pairs in by_switch:
        ups, downs = [up for up, _ in pairs], [down for _, down in pairs]
        up, down = _figures(ups), _figures(downs)
        rates = f"{up}, both ways" if up == down else f"up {up}; down {down}"
        yield f"Link{'s' * (len(pairs) > 1)} of {_names([link.source for link in ups])} to {ups[0].target}: {rates}"
    paired = {id(link) for pair in uplinks for link in pair}
    for link in cluster.links:
        if link.source != link.target and id(link) not in paired:
            yield f"Link {link.source} -> {link.target}: {_figures([link])}"
    yield from change_lines(cluster)
    for loops in _group_by_key((_alike(link), link) for link in cluster.links if link.source == link.target):
        yield f"Within {'each of ' * (len(loops) > 1)}{_names([link.source for link in loops])}: {_figures(loops)}"


def change_lines(cluster: ClusterSpec) -> Iterator[str]:
    """Yield a line for each time at which links of an emulated cluster change, with their rates from then on."""
    for start in cluster.phase_starts[1:]:
        changes = [
            (link, later) for link in cluster.links for later in link.later or () if later.after_seconds == start
        ]
        groups = _group_by_key((later.gbit_per_s.value, (link, later)) for link, later in changes)
        texts = [
            f"{_names([f'{link.source} -> {link.target}' for link, _ in pairs])} at {_rate(pairs[0][1].gbit_per_s)}"
            for pairs in groups
        ]
        yield f"From {start:g} s on: {', '.join(texts)} Gbit/s"


def prediction_phase(cluster: ClusterSpec) -> str:
    """A sentence about the phase that predictions are for, if links change; else empty."""
    if not cluster.changes:
        return ""
    return (
        f"Links change: predictions are for phase 0 of 0 to {len(cluster.phase_starts) - 1}, by the first rates, "
        "whichever phase a trial is timed in."
    )


def route_lines(cluster: ClusterSpec) -> Iterator[str]:
    """Yield lines for the routes between nodes; routes over the same switches share a line."""
    routes = [
        cluster.route(source.name, target.name)
        for source in cluster.nodes
        for target in cluster.nodes
        if source is not target
    ]
    for alike in _group_by_key((tuple(link.target for link in route[:-1]), route) for route in routes):
        sources = list(dict.fromkeys(route[0].source for route in alike))
        targets = list(dict.fromkeys(route[-1].target for route in alike))
        over = " over " + ", ".join(link.target for link in alike[0][:-1]) if len(alike[0]) > 1 else ""
        ends = (
            f"between {_names(sources)}"
            if set(sources) == set(targets)
            else f"from {_names(sources)} to {_names(targets)}"
        )
        slowest = [min(route, key=lambda link: link.gbit_per_s.value).gbit_per_s for route in alike]
        latencies = [sum(link.latency_us.value for link in route) for route in alike]
        rates = _span([figure.value for figure in slowest])
        yield f"Routes {ends}{over}: {rates} Gbit/s ({_sources(slowest)}), {_span(latencies)} us"


def node_in_words(node: Node) -> str:
    """The resources of a node, such as 1 worker, 4 cores, 2 GPUs."""
    has = [_count(node.workers, "worker"), _count(node.cores, "core")]
    has += [_count(node.gpus, "GPU")] if node.gpus else []
    return ", ".join([*has, pace_in_words(node.pace)] if node.pace else has)


def unlike_nodes(mine: Node, theirs: Node) -> str:
    """How the machine of node `theirs` differs from the machine of node `mine`, with both addresses."""
    if mine.pace != theirs.pace:
        paces = [pace_in_words(node.pace) if node.pace else "real passes" for node in (theirs, mine)]
        return f"{paces[0]} at {theirs.address}, {paces[1]} at {mine.address}"
    return (
        f"{theirs.cores:g} cores and {theirs.gpus} GPUs at {theirs.address}, "
        f"{mine.cores:g} and {mine.gpus} at {mine.address}"
    )


def pace_in_words(pace: Pace) -> str:
    """The pace in words.

    Such as: paced passes of 20 ms + 5 x the profile, jitter 0.05, 10 % of steps 3 x as long for 50 steps.
    """
    parts = [f"{pace.fixed_seconds * 1e3:g} ms"] if pace.fixed_seconds else []
    parts += [f"{pace.batch_seconds * 1e3:g} ms a batch"] if pace.batch_seconds else []
    parts += [f"{pace.scale:g} x the profile"] if pace.scale else []
    texts = [f"paced passes of {' + '.join(parts)} ({pace.numbers} numbers)"]
    spread = pace.spread
    texts += [f"jitter {spread.lognormal:g}"] if spread.lognormal else []
    if slow := spread.slow:
        whose = f", all of {slow.together} together" if slow.together else ""
        texts.append(f"{slow.probability * 100:g} % of steps {slow.factor:g} x as long for {slow.dwell} steps{whose}")
    texts += [f"a trace of {len(spread.trace)} factors"] if spread.trace else []
    texts += [f"{pace.stream:g} examples a second"] if pace.stream else []
    return ", ".join(texts)


def kept_in_words(kept: KeptPace) -> str:
    """How closely a trial followed its pace: median pass times, and the lateness at the worst replica."""
    asked, took = (statistics.median(seconds) * 1e3 for seconds in (kept.requested_seconds, kept.achieved_seconds))
    late = [max(seconds) * 1e3 for seconds in (kept.late_p50_seconds, kept.late_p99_seconds)]
    steps = f" of {kept.recorded_steps} real steps" if kept.recorded_steps else ""
    return (
        f"Paced: passes of {asked:.1f} ms took {took:.1f} ms; at the worst replica half of all releases were up to "
        f"{late[0]:.2f} ms late, 99 % up to {late[1]:.2f} ms; numbers {kept.numbers}{steps}"
    )


def _node_line(nodes: Sequence[Node]) -> str:
    first, several = nodes[0], len(nodes) > 1
    which = f"{len(nodes)} nodes" if several else "Node"
    addresses = [node.address for node in nodes if node.address]
    at = f" at {_names(addresses)}" if addresses else ""
    return f"{which} {_names([node.name for node in nodes])}{at}: {node_in_words(first)}{' each' * several}"


def _uplinks(cluster: ClusterSpec) -> list[tuple[Link, Link]]:
    """Links of nodes and racks to the switch above, with the link back; a switch is above all earlier ones in order."""
    order = [*(node.name for node in cluster.nodes), *cluster.switches]
    back = {(link.source, link.target): link for link in cluster.links}
    return [
        (link, back[link.target, link.source])
        for link in cluster.links
        if link.target in cluster.switches
        and order.index(link.source) < order.index(link.target)
        and (link.target, link.source) in back
    ]


def _alike(link: Link) -> tuple[str, str, str]:
    """The properties that links that are alike share: the printed rate, and the sources of rate and latency."""
    return _rate(link.gbit_per_s), link.gbit_per_s.source, link.latency_us.source


def _figures(links: Sequence[Link]) -> str:
    """Rates and latencies of links that are alike."""
    rates, latencies = [link.gbit_per_s for link in links], [link.latency_us for link in links]
    return (
        f"{_rate(rates[0])} Gbit/s ({_sources(rates)}), "
        f"{_span([figure.value for figure in latencies])} us ({_sources(latencies)})"
    )


def _sources(figures: Iterable[Figure]) -> str:
    return " or ".join(dict.fromkeys(figure.source for figure in figures))


def _rate(figure: Figure) -> str:
    """The rate in digits: two if it is measured, because further digits are noise, else four."""
    return _digits(figure.value, 2 if figure.source == "measured" else 4)


def _span(values: Sequence[float]) -> str:
    low, high = _digits(min(values), 3), _digits(max(values), 3)
    return low if low == high else f"{low} to {high}"


def _digits(value: float, digits: int) -> str:
    """The rounded value, without an exponent if the text stays short: 120, not 1.2e+02."""
    return f"{float(f'{value:.{digits}g}'):g}"


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'s' * (number != 1)}"


def _group_by_key(keyed: Iterable[tuple[Hashable, Element]]) -> list[list[Element]]:
    """The elements grouped by key, in order of each group's first element."""
    groups: dict[Hashable, list[Element]] = {}
    for key, element in keyed:
        groups.setdefault(key, []).append(element)
    return list(groups.values())


def _names(names: Sequence[str]) -> str:
    """The names in words: three or more with consecutive numbers as node0..node3, others individually."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [part for run in runs for part in ([run] if len(run) > 2 else [[name] for name in run])]
    shown = [part[0] if len(part) == 1 else f"{part[0]}..{part[-1]}" for part in parts]
    hidden = sum(map(len, parts[MOST_NAMED:]))
    return ", ".join(shown) if not hidden else f"{', '.join(shown[:MOST_NAMED])} and {hidden} more"


def _follows(name: str, after: str) -> bool:
    before, following = (re.fullmatch(r"(.*?)(\d+)", text, re.ASCII) for text in (name, after))
    return bool(before and following and before[1] == following[1] and int(before[2]) + 1 == int(following[2]))

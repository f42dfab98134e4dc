"""A cluster in words: nodes that are alike, and links that are alike, share a line."""

import re
import statistics
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from autosync.spec import ClusterSpec, Figure, KeptPace, Link, Node, Pace

MOST_NAMED = 4
"""The most names, among those not numbered in a row, that are listed before the rest is only counted."""

Each = TypeVar("Each")


def cluster_lines(cluster: ClusterSpec) -> Iterator[str]:
    """Lines for nodes, then for links with where their figures come from; loopbacks come last."""
    for nodes in _grouped(((node.machine, node.workers), node) for node in cluster.nodes):
        yield _node_line(nodes)
    uplinks = _uplinks(cluster)
    by_switch = _grouped(((up.target, _alike(up), _alike(down)), (up, down)) for up, down in uplinks)
    for pairs in by_switch:
        ups, downs = [up for up, _ in pairs], [down for _, down in pairs]
        up, down = _figures(ups), _figures(downs)
        rates = f"{up}, both ways" if up == down else f"up {up}; down {down}"
        yield f"Link{'s' * (len(pairs) > 1)} of {_names([each.source for each in ups])} to {ups[0].target}: {rates}"
    paired = {id(link) for pair in uplinks for link in pair}
    for link in cluster.links:
        if link.source != link.target and id(link) not in paired:
            yield f"Link {link.source} -> {link.target}: {_figures([link])}"
    yield from change_lines(cluster)
    for loops in _grouped((_alike(link), link) for link in cluster.links if link.source == link.target):
        yield f"Within {'each of ' * (len(loops) > 1)}{_names([link.source for link in loops])}: {_figures(loops)}"


def change_lines(cluster: ClusterSpec) -> Iterator[str]:
    """A line for each time at which links of an emulated cluster change, with their rates from then on."""
    for start in cluster.phase_starts[1:]:
        begun = [(link, later) for link in cluster.links for later in link.later or () if later.after_seconds == start]
        groups = _grouped((later.gbit_per_s.value, (link, later)) for link, later in begun)
        said = [
            f"{_names([f'{link.source} -> {link.target}' for link, _ in pairs])} at {_rate(pairs[0][1].gbit_per_s)}"
            for pairs in groups
        ]
        yield f"From {start:g} s on: {', '.join(said)} Gbit/s"


def predicted_for(cluster: ClusterSpec) -> str:
    """A sentence that says for which phase predictions are where links change; empty where none does."""
    if not cluster.changes:
        return ""
    return (
        f"Links change: predictions are for phase 0 of 0 to {len(cluster.phase_starts) - 1}, by the first rates, "
        "whichever phase a trial is timed in."
    )


def route_lines(cluster: ClusterSpec) -> Iterator[str]:
    """Lines for the routes between nodes, those over the same switches together."""
    routes = [
        cluster.route(one.name, other.name) for one in cluster.nodes for other in cluster.nodes if one is not other
    ]
    for alike in _grouped((tuple(link.target for link in route[:-1]), route) for route in routes):
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
    """What a node has, such as 1 worker, 4 cores, 2 GPUs."""
    has = [_count(node.workers, "worker"), _count(node.cores, "core")]
    has += [_count(node.gpus, "GPU")] if node.gpus else []
    return ", ".join([*has, pace_in_words(node.pace)] if node.pace else has)


def unlike_nodes(mine: Node, its: Node) -> str:
    """How the machine of another node differs from one's own, at their addresses."""
    if mine.pace != its.pace:
        paces = [pace_in_words(each.pace) if each.pace else "real passes" for each in (its, mine)]
        return f"{paces[0]} at {its.address}, {paces[1]} at {mine.address}"
    return f"{its.cores:g} cores and {its.gpus} GPUs at {its.address}, {mine.cores:g} and {mine.gpus} at {mine.address}"


def pace_in_words(pace: Pace) -> str:
    """The pace as: paced passes of 20 ms + 5 x the profile, jitter 0.05, 10 % of steps 3 x as long for 50 steps."""
    parts = [f"{pace.fixed_seconds * 1e3:g} ms"] if pace.fixed_seconds else []
    parts += [f"{pace.batch_seconds * 1e3:g} ms a batch"] if pace.batch_seconds else []
    parts += [f"{pace.scale:g} x the profile"] if pace.scale else []
    said = [f"paced passes of {' + '.join(parts)} ({pace.numbers} numbers)"]
    spread = pace.spread
    said += [f"jitter {spread.lognormal:g}"] if spread.lognormal else []
    if slow := spread.slow:
        whose = f", all of {slow.together} together" if slow.together else ""
        said.append(f"{slow.probability * 100:g} % of steps {slow.factor:g} x as long for {slow.dwell} steps{whose}")
    said += [f"a trace of {len(spread.trace)} factors"] if spread.trace else []
    said += [f"{pace.stream:g} examples a second"] if pace.stream else []
    return ", ".join(said)


def kept_in_words(kept: KeptPace) -> str:
    """How a trial's pace was kept, by the replicas that kept it worst."""
    asked, took = (statistics.median(each) * 1e3 for each in (kept.requested_seconds, kept.achieved_seconds))
    late = [max(each) * 1e3 for each in (kept.late_p50_seconds, kept.late_p99_seconds)]
    of = f" of {kept.recorded_steps} real steps" if kept.recorded_steps else ""
    return (
        f"Paced: passes of {asked:.1f} ms took {took:.1f} ms; at the worst replica half of all releases were up to "
        f"{late[0]:.2f} ms late, 99 % up to {late[1]:.2f} ms; numbers {kept.numbers}{of}"
    )


def _node_line(nodes: Sequence[Node]) -> str:
    first, several = nodes[0], len(nodes) > 1
    which = f"{len(nodes)} nodes" if several else "Node"
    addresses = [node.address for node in nodes if node.address]
    at = f" at {_names(addresses)}" if addresses else ""
    return f"{which} {_names([node.name for node in nodes])}{at}: {node_in_words(first)}{' each' * several}"


def _uplinks(cluster: ClusterSpec) -> list[tuple[Link, Link]]:
    """Links of nodes and racks to the switch above, with the way back; a switch is above those that come before it."""
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
    """What links that are alike have in common: their rate as it is shown, and where both figures come from."""
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
    """The rate in digits. A measured one is not sure to more than two, and is alike with those that share them."""
    return _digits(figure.value, 2 if figure.source == "measured" else 4)


def _span(values: Sequence[float]) -> str:
    low, high = _digits(min(values), 3), _digits(max(values), 3)
    return low if low == high else f"{low} to {high}"


def _digits(value: float, digits: int) -> str:
    """The value rounded, and written without an exponent where that is short: 120, not 1.2e+02."""
    return f"{float(f'{value:.{digits}g}'):g}"


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'s' * (number != 1)}"


def _grouped(keyed: Iterable[tuple[Hashable, Each]]) -> list[list[Each]]:
    """The elements in groups of one key, in the order of each group's first."""
    groups: dict[Hashable, list[Each]] = {}
    for key, each in keyed:
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _names(names: Sequence[str]) -> str:
    """The names in words: three or more that are numbered in a row as node0..node3, others one by one."""
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
    one, other = (re.fullmatch(r"(.*?)(\d+)", each, re.ASCII) for each in (name, after))
    return bool(one and other and one[1] == other[1] and int(one[2]) + 1 == int(other[2]))

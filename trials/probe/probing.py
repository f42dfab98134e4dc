"""Probing a cluster: every probe in its round, within a budget of seconds, and the figures that come of it."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, final

from autosync.spec import ClusterSpec, Figure, Link, Node
from autosync.spec.codec import Noun
from trials.probe.flows import (
    Ends,
    Flow,
    Probe,
    Sample,
    ends_of,
    link_latencies_us,
    link_rates_gbit_per_s,
    links_crossed,
    seconds_a_byte,
)
from trials.probe.schedule import fill_probe, fillable_links, loopback_probes, pair_probes, rounds, run_round
from trials.probe.timing import FlowTiming, Transport, copy_gbit_per_s, hop_us, message_us, time_flows

Item = TypeVar("Item")
Found = TypeVar("Found")
Pair = tuple[str, str]

ENDS_AT = {"latency": 0.2, "pairs": 0.55, "fills": 0.9, "hosts": 1.0}
"""The share of the budget by which each part has to end; what is left goes to the next."""
CALLS_OF_A_PROBE = 8.0
"""The length of most probes, in times of a largest message: growing sizes, four of the largest, three of its half."""
SET_UP_SECONDS = 0.3
"""Seconds that a probe takes besides: building its function, small messages, pauses."""
SHORTEST_MESSAGE_SECONDS = 0.02


@dataclass(frozen=True)
class ProbeSettings:
    """How long probing may take in all, and how probes are timed when time suffices.

    With less time messages are shorter, and rounds that the budget leaves no time for are left out, but none of those
    that are the first over some link; one that has begun is finished. A probe that has no answer within
    `answer_seconds` ends probing with an error.
    """

    budget_seconds: float = 20.0
    answer_seconds: float = 30.0
    timing: FlowTiming = field(default_factory=FlowTiming)


@dataclass(frozen=True)
class Probing(Noun, what="A probing"):
    """A cluster with its measured figures, and a report in JSON that says what they come from."""

    cluster: ClusterSpec
    report: Mapping[str, Any]


def probed(
    cluster: ClusterSpec,
    transport: Transport,
    settings: ProbeSettings | None = None,
    now: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], None] = time.sleep,
) -> Probing:
    """`cluster` with what can be measured in the budget; links and nodes that no probe reached keep their figures.

    Time is told by `now` and let pass by `pause`.
    Raises `ClusterError`, naming the nodes, when one does not answer.
    """
    return _Session(cluster, transport, settings or ProbeSettings(), now, pause).probing()


@final
class _Session:
    """One probing, from its first round to its figures."""

    def __init__(
        self,
        cluster: ClusterSpec,
        transport: Transport,
        settings: ProbeSettings,
        now: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._transport = transport
        self._settings = settings
        self._now = now
        self._pause = pause
        self._begin = now()
        self._left_out = 0
        self._samples: dict[Probe, list[Sample]] = {}

    def probing(self) -> Probing:
        pairs = [*loopback_probes(self._cluster), *pair_probes(self._cluster)]
        alphas = self._alphas_us(pairs)
        self._send("pairs", pairs)
        rates = self._rates()
        self._send("fills", self._unlike(pairs, self._fills(rates)))
        hosts = self._hosts()
        rates, latencies = self._rates(), link_latencies_us(self._cluster, alphas)
        cluster = replace(
            self._cluster,
            nodes=tuple(hosts.get(node.name, node) for node in self._cluster.nodes),
            links=tuple(_measured(link, rates, latencies) for link in self._cluster.links),
        )
        return Probing(cluster, self._report(alphas))

    def _alphas_us(self, pairs: Sequence[Probe]) -> dict[Pair, float]:
        """Latencies in microseconds of both directions of every pair, though only their mean is measured."""
        once: dict[frozenset[str], tuple[Flow, Flow]] = {}
        for flow in (flow for probe in pairs for flow in probe.flows):
            once.setdefault(frozenset((flow.source, flow.target)), (flow, Flow(flow.target, flow.source)))

        def measure(ways: tuple[Flow, Flow]) -> float:
            source, target = self._devices(ways[0])
            return hop_us(lambda count: self._transport.hops(source, target, count))

        planned = list(rounds(self._cluster, list(once.values()), lambda ways: ways))
        found = self._run("latency", planned, measure, lambda ways: ways[0])
        return {(way.source, way.target): alpha for ways, alpha in found.items() for way in ways}

    def _fills(self, rates: Mapping[Ends, float]) -> list[Probe]:
        links = fillable_links(self._cluster).items()
        return [fill_probe(self._cluster, link, pairs, rates) for link, pairs in links]

    def _unlike(self, known: Sequence[Probe], probes: Iterable[Probe]) -> list[Probe]:
        """The `probes` that send along other routes than every `known` one."""
        routes = {frozenset((flow.source, flow.target) for flow in probe.flows) for probe in known}
        return [
            probe for probe in probes if frozenset((flow.source, flow.target) for flow in probe.flows) not in routes
        ]

    def _send(self, part: str, probes: Sequence[Probe]) -> None:
        planned = list(rounds(self._cluster, probes, lambda probe: probe.flows))
        timing = self._affordable(part, len(planned))

        def measure(probe: Probe) -> list[Sample]:
            call = self._transport.flows([self._devices(flow) for flow in probe.flows])
            return time_flows(call, [flow.weight for flow in probe.flows], timing, self._pause)

        self._samples |= self._run(part, planned, measure, lambda probe: probe, self._first_over_a_link(planned))

    def _first_over_a_link(self, planned: Sequence[tuple[Probe, ...]]) -> frozenset[int]:
        """The places of the rounds that cross a link which neither an earlier one does nor what was sent before.

        Each is run, whatever the time: a link that only a fan has crossed may be taken for a fraction of what it is.
        """

        def crossed(probes: Iterable[Probe]) -> set[Ends]:
            return {link for probe in probes for link in links_crossed(self._cluster, probe.flows)}

        reached, first = crossed(self._samples), set()
        for place, members in enumerate(planned):
            if not crossed(members) <= reached:
                first.add(place)
                reached |= crossed(members)
        return frozenset(first)

    def _hosts(self) -> dict[str, Node]:
        """The nodes by name, with their copy rate and their cost of a message."""
        nodes = [(Flow(node.name, self._neighbour(node)), node) for node in self._cluster.nodes]

        def measure(item: tuple[Flow, Node]) -> Node:
            flow, node = item
            source, target = self._devices(flow)
            copy = copy_gbit_per_s(lambda size, count: self._transport.copies(source, size, count))
            node = replace(node, copy_gbit_per_s=Figure(copy, "measured"))
            if source == target:
                return node
            message = message_us(lambda count: self._transport.messages(source, target, count))
            return replace(node, message_us=Figure(message, "measured"))

        planned = list(rounds(self._cluster, nodes, lambda item: [item[0]]))
        found = self._run("hosts", planned, measure, lambda item: item[0])
        return {node.name: node for node in found.values()}

    def _run(
        self,
        part: str,
        planned: Sequence[tuple[Item, ...]],
        measure: Callable[[Item], Found],
        name: Callable[[Item], object],
        needed: Collection[int] = (),
    ) -> dict[Item, Found]:
        """What is found in the rounds that there is time for, in the first, and in the `needed` ones, by place."""
        found: dict[Item, Found] = {}
        for place, members in enumerate(planned):
            late = self._seconds() > ENDS_AT[part] * self._settings.budget_seconds
            if late and place and place not in needed:
                self._left_out += len(members)
                continue
            work = {str(name(item)): (lambda item=item: (item, measure(item))) for item in members}
            found.update(run_round(work, self._settings.answer_seconds).values())
        return found

    def _affordable(self, part: str, planned: int) -> FlowTiming:
        """The timing of `planned` rounds of probes that fits into the time left for `part`."""
        timing = self._settings.timing
        left = ENDS_AT[part] * self._settings.budget_seconds - self._seconds()
        seconds = (left / max(planned, 1) - SET_UP_SECONDS) / CALLS_OF_A_PROBE
        return replace(timing, message_seconds=min(max(seconds, SHORTEST_MESSAGE_SECONDS), timing.message_seconds))

    def _devices(self, flow: Flow) -> Pair:
        """The devices of a flow: first worker to first worker; within a node first to second, if it has two."""
        source, target = (self._cluster.node(name).cpu_devices for name in (flow.source, flow.target))
        return str(source[0]), str(target[-1 if flow.source != flow.target or len(target) == 1 else 1])

    def _neighbour(self, node: Node) -> str:
        nodes = self._cluster.nodes
        return node.name if node.workers > 1 else nodes[(nodes.index(node) + 1) % len(nodes)].name

    def _rates(self) -> dict[Ends, float]:
        return link_rates_gbit_per_s(
            self._cluster, {probe: seconds_a_byte(samples) for probe, samples in self._samples.items()}
        )

    def _seconds(self) -> float:
        return self._now() - self._begin

    def _report(self, alphas: Mapping[Pair, float]) -> dict[str, Any]:
        betas = {probe: seconds_a_byte(samples) for probe, samples in self._samples.items()}
        plain = {
            (probe.flows[0].source, probe.flows[0].target): beta for probe, beta in betas.items() if not probe.fills
        }
        return {
            "seconds": self._seconds(),
            "probes_left_out": self._left_out,
            "pairs": [
                {
                    "source": source,
                    "target": target,
                    "alpha_us": alphas.get((source, target)),
                    "gbit_per_s": 8e-9 / plain[source, target] if (source, target) in plain else None,
                }
                for source, target in sorted(alphas.keys() | plain.keys())
            ],
            "probes": [_probe_json(probe, self._samples[probe], betas[probe]) for probe in self._samples],
        }


def _probe_json(probe: Probe, samples: Sequence[Sample], beta: float) -> dict[str, Any]:
    return {
        "flows": [{"source": each.source, "target": each.target, "weight": each.weight} for each in probe.flows],
        "fills": list(probe.fills) if probe.fills else None,
        "gbit_per_s": 8e-9 / beta,
        "bytes": [each.probe_bytes for each in samples],
        "seconds": [each.seconds for each in samples],
    }


def _measured(link: Link, rates: Mapping[Ends, float], latencies: Mapping[Ends, float]) -> Link:
    ends = ends_of(link)
    return replace(
        link,
        gbit_per_s=Figure(rates[ends], "measured") if ends in rates else link.gbit_per_s,
        latency_us=Figure(latencies[ends], "measured") if ends in latencies else link.latency_us,
    )

"""Probes a cluster in rounds, within a budget of seconds, and computes the cluster's figures."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, final

from autosync.engine.core.contract import Transport
from autosync.spec import ClusterSpec, Figure, Link, Node
from autosync.spec.codec import Noun
from trials.probe.flows import (
    Ends,
    Probe,
    ProbeFlow,
    ProbeSample,
    ends_of,
    link_latencies_us,
    link_rates_gbit_per_s,
    links_crossed,
    seconds_a_byte,
)
from trials.probe.schedule import fill_probe, fillable_links, loopback_probes, pair_probes, rounds, run_round
from trials.probe.timing import FlowTiming, copy_gbit_per_s, hop_us, message_us, time_flows

Item = TypeVar("Item")
Result = TypeVar("Result")
Pair = tuple[str, str]

ENDS_AT = {"latency": 0.2, "pairs": 0.55, "fills": 0.9, "hosts": 1.0}
"""The fraction of the budget by which each part must end; a part inherits the time that earlier parts did not use."""
CALLS_OF_A_PROBE = 8.0
"""The length of most probes, in times of a largest message: growing sizes, four of the largest, three of half that
size.
"""
SET_UP_SECONDS = 0.3
"""Seconds that a probe takes in addition: building its function, small messages, pauses."""
SHORTEST_MESSAGE_SECONDS = 0.02


@dataclass(frozen=True)
class ProbeSettings:
    """The time limits of probing, and the timing of probes if time suffices.

    With less time, messages are shorter, and rounds beyond the budget are omitted, except rounds that are the first to
    cross some link. A started round is always finished.
    """

    budget_seconds: float = 20.0
    """Seconds of the whole probing."""
    answer_seconds: float = 30.0
    """A probe without an answer after this time ends probing with an error."""
    timing: FlowTiming = field(default_factory=FlowTiming)


@dataclass(frozen=True)
class Probing(Noun, what="A probing"):
    """A cluster with its measured figures, and a report in JSON on the measurements."""

    cluster: ClusterSpec
    report: Mapping[str, Any]


def probe_cluster(
    cluster: ClusterSpec,
    transport: Transport,
    settings: ProbeSettings | None = None,
    now: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], None] = time.sleep,
) -> Probing:
    """Measure `cluster` within the budget; links and nodes that no probe reached keep their figures.

    `now` reads the time, and `pause` waits. Raises `ClusterError`, naming the nodes, if a node does not answer.
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
        self._samples: dict[Probe, list[ProbeSample]] = {}

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
            links=tuple(_with_measurements(link, rates, latencies) for link in self._cluster.links),
        )
        return Probing(cluster, self._report(alphas))

    def _alphas_us(self, pairs: Sequence[Probe]) -> dict[Pair, float]:
        """Latencies in microseconds of both directions of every pair, although only their mean is measured."""
        once: dict[frozenset[str], tuple[ProbeFlow, ProbeFlow]] = {}
        for flow in (flow for probe in pairs for flow in probe.flows):
            once.setdefault(frozenset((flow.source, flow.target)), (flow, ProbeFlow(flow.target, flow.source)))

        def measure(ways: tuple[ProbeFlow, ProbeFlow]) -> float:
            source, target = self._devices(ways[0])
            return hop_us(lambda count: self._transport.hops(source, target, count))

        planned = list(rounds(self._cluster, list(once.values()), lambda ways: ways))
        alphas = self._run("latency", planned, measure, lambda ways: ways[0])
        return {(way.source, way.target): alpha for ways, alpha in alphas.items() for way in ways}

    def _fills(self, rates: Mapping[Ends, float]) -> list[Probe]:
        links = fillable_links(self._cluster).items()
        return [fill_probe(self._cluster, link, pairs, rates) for link, pairs in links]

    def _unlike(self, known: Sequence[Probe], probes: Iterable[Probe]) -> list[Probe]:
        """Return the `probes` with other routes than every `known` probe."""
        routes = {frozenset((flow.source, flow.target) for flow in probe.flows) for probe in known}
        return [
            probe for probe in probes if frozenset((flow.source, flow.target) for flow in probe.flows) not in routes
        ]

    def _send(self, part: str, probes: Sequence[Probe]) -> None:
        planned = list(rounds(self._cluster, probes, lambda probe: probe.flows))
        timing = self._affordable(part, len(planned))

        def measure(probe: Probe) -> list[ProbeSample]:
            call = self._transport.flows([self._devices(flow) for flow in probe.flows])
            return time_flows(call, [flow.weight for flow in probe.flows], timing, self._pause)

        self._samples |= self._run(part, planned, measure, lambda probe: probe, self._first_over_a_link(planned))

    def _first_over_a_link(self, planned: Sequence[tuple[Probe, ...]]) -> frozenset[int]:
        """Return the positions of the rounds that cross a link which no earlier round or probe has crossed.

        These rounds always run, because a link crossed only by a fan may be measured at a fraction of its rate.
        """

        def links_of(probes: Iterable[Probe]) -> set[Ends]:
            return {link for probe in probes for link in links_crossed(self._cluster, probe.flows)}

        reached, first = links_of(self._samples), set()
        for place, members in enumerate(planned):
            if not links_of(members) <= reached:
                first.add(place)
                reached |= links_of(members)
        return frozenset(first)

    def _hosts(self) -> dict[str, Node]:
        """Return the nodes by name, with their copy rate and their cost of a message."""
        nodes = [(ProbeFlow(node.name, self._neighbour(node)), node) for node in self._cluster.nodes]

        def measure(item: tuple[ProbeFlow, Node]) -> Node:
            flow, node = item
            source, target = self._devices(flow)
            copy = copy_gbit_per_s(lambda size, count: self._transport.copies(source, size, count))
            node = replace(node, copy_gbit_per_s=Figure(copy, "measured"))
            if source == target:
                return node
            message = message_us(lambda count: self._transport.messages(source, target, count))
            return replace(node, message_us=Figure(message, "measured"))

        planned = list(rounds(self._cluster, nodes, lambda item: [item[0]]))
        hosts = self._run("hosts", planned, measure, lambda item: item[0])
        return {node.name: node for node in hosts.values()}

    def _run(
        self,
        part: str,
        planned: Sequence[tuple[Item, ...]],
        measure: Callable[[Item], Result],
        name: Callable[[Item], object],
        needed: Collection[int] = (),
    ) -> dict[Item, Result]:
        """Return the results of the rounds within the time limit, of the first round, and of rounds at `needed`
        positions.
        """
        results: dict[Item, Result] = {}
        for place, members in enumerate(planned):
            late = self._seconds() > ENDS_AT[part] * self._settings.budget_seconds
            if late and place and place not in needed:
                self._left_out += len(members)
                continue
            work = {str(name(item)): (lambda item=item: (item, measure(item))) for item in members}
            results.update(run_round(work, self._settings.answer_seconds).values())
        return results

    def _affordable(self, part: str, planned: int) -> FlowTiming:
        """Return the timing with which `planned` rounds of probes fit into the time left for `part`."""
        timing = self._settings.timing
        left = ENDS_AT[part] * self._settings.budget_seconds - self._seconds()
        seconds = (left / max(planned, 1) - SET_UP_SECONDS) / CALLS_OF_A_PROBE
        return replace(timing, message_seconds=min(max(seconds, SHORTEST_MESSAGE_SECONDS), timing.message_seconds))

    def _devices(self, flow: ProbeFlow) -> Pair:
        """Return the devices of a flow: first worker to first worker; within a node first to second, if it has two."""
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


def _probe_json(probe: Probe, samples: Sequence[ProbeSample], beta: float) -> dict[str, Any]:
    return {
        "flows": [{"source": flow.source, "target": flow.target, "weight": flow.weight} for flow in probe.flows],
        "fills": list(probe.fills) if probe.fills else None,
        "gbit_per_s": 8e-9 / beta,
        "bytes": [sample.probe_bytes for sample in samples],
        "seconds": [sample.seconds for sample in samples],
    }


def _with_measurements(link: Link, rates: Mapping[Ends, float], latencies: Mapping[Ends, float]) -> Link:
    ends = ends_of(link)
    return replace(
        link,
        gbit_per_s=Figure(rates[ends], "measured") if ends in rates else link.gbit_per_s,
        latency_us=Figure(latencies[ends], "measured") if ends in latencies else link.latency_us,
    )

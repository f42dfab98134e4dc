"""Parts of an exchange, one stage of messages or one piece of work each, as loads on a cluster's resources.

Everything is linear in a shard's `Quantities`, and in the coefficients. A part's kinds of cost are link seconds,
messages, bytes copied, bytes reduced and bytes updated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import Resources
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.flows import last_arrival
from autosync.cost.replay.queues import Tasks, replayed
from autosync.layout.exchange import SCALE_BYTES, Quantities, Stage, Transfer, Work
from autosync.spec import ClusterSpec, Link

FloatArray = npt.NDArray[np.float64]

LINK, MESSAGES, COPIED, REDUCED, UPDATED = range(5)
QUANTITIES = len(Quantities._fields)
PAYLOAD, INDEX, TOUCHED, HELD, PIECES, SCALES = range(6)
MOST_FLOWS = 4096
"""The most flows of a stage whose fair shares are worked out; of one with more, the busiest link decides."""


class Flow(NamedTuple):
    """Transfers alike between two nodes; `through_cores` unless they stay in one process."""

    source: str
    target: str
    payload: float
    indices: float
    touched: float
    messages: float
    gradients: float
    through_cores: bool = True


@dataclass(frozen=True, eq=False)
class Part:
    """`loads` float64 (kinds, quantities, columns), in seconds, messages and bytes a unit of capacity.

    `chain` float64 (kinds, quantities) is what follows one another in a part that has an idle cluster to itself, one
    unit of what it adds included; `latency_seconds` is that of its chain of messages. Of a ring, `ring_members` counts
    who is in it: where its chunks go round in pieces, only one of these is in the chain.
    """

    loads: FloatArray
    chain: FloatArray
    latency_seconds: float = 0.0
    ring_members: int = 0


class Costed(NamedTuple):
    """A part under some coefficients, seconds a unit of each quantity: `busy` (quantities, columns), `chain`."""

    busy: FloatArray
    chain: FloatArray


@final
class PartMaker:
    """Makes parts of exchanges on one cluster."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self._routes: dict[tuple[str, str], tuple[list[int], float]] = {}

    def of_stage(self, stage: Stage, added: Sequence[Work] = ()) -> Part:
        """The part that is a stage of messages, with the work that is done on the way."""
        return self.of_flows(Counter(map(self._flow, stage.transfers)), stage.rounds, added)

    def of_flows(self, flows: Mapping[Flow, int], rounds: int = 1, added: Sequence[Work] = ()) -> Part:
        """The part that is as many of each of `flows` as stated, which all begin at the same time."""
        resources = self.resources
        loads = np.zeros((5, QUANTITIES, resources.count))
        chain = np.zeros((5, QUANTITIES))
        latency = 0.0
        for flow, count in flows.items():
            links, seconds = self._route(flow)
            latency = max(latency, seconds)
            weights, messages = _weights(flow), _messages(flow)
            for link in links:
                loads[LINK, :, link] += count * weights / resources.bytes_per_second[link]
            if not flow.through_cores:
                continue
            for end in (flow.source, flow.target):
                node = resources.node_column[end]
                cores = resources.cores[node - resources.nodes.start]
                loads[MESSAGES, :, node] += count * messages / cores
                loads[COPIED, :, node] += count * weights / cores
            if rounds <= 2:
                chain[MESSAGES] = np.maximum(chain[MESSAGES], 2 * messages)
                chain[COPIED] = np.maximum(chain[COPIED], 2 * weights)
        if rounds > 2:
            self._chain_of_ring(flows, chain)
        else:
            chain[LINK] = self._fair_seconds(flows)
        if added:
            chain[REDUCED] = chain[COPIED] / 2
        for work in added:
            self._add_work(loads, work, on_server=False)
        return Part(loads, chain, rounds * latency, ring_members=rounds // 2 + 1 if rounds > 2 else 0)

    def of_work(self, works: Iterable[Work], server: str | None) -> Part:
        """The part that is adding up and updating, after the messages before it and before those after."""
        loads = np.zeros((5, QUANTITIES, self.resources.count))
        for work in works:
            self._add_work(loads, work, on_server=work.device == server)
        return Part(loads, np.zeros((5, QUANTITIES)))

    def costed(self, part: Part, coefficients: ReplayCoefficients) -> Costed:
        rates = np.array(
            [
                1.0 + coefficients.link_overhead,
                coefficients.core_seconds_per_message,
                coefficients.core_seconds_per_byte,
                coefficients.core_seconds_per_reduced_byte,
                coefficients.core_seconds_per_updated_byte,
            ]
        )
        busy = np.tensordot(rates, part.loads, axes=1)
        self.resources.add_shared(busy)
        return Costed(busy, rates @ part.chain)

    def flow_like(self, transfer: Transfer, source: str, target: str, through_cores: bool) -> Flow:
        """A flow between two nodes of what `transfer` takes."""
        shares = transfer.payload, transfer.index, transfer.touched, transfer.messages, transfer.gradients
        return Flow(source, target, *shares, through_cores)

    def _flow(self, transfer: Transfer) -> Flow:
        source, target = (self.resources.node_of[each] for each in (transfer.source, transfer.target))
        within = source == target and "/gpu:" in transfer.source and "/gpu:" in transfer.target
        return self.flow_like(transfer, source, target, not within)

    def _route(self, flow: Flow) -> tuple[list[int], float]:
        """The links' columns, and the latency."""
        ends = flow.source, flow.target
        if ends not in self._routes:
            links: tuple[Link, ...] = self.resources.cluster.route(*ends)
            columns = [self.resources.link_column[id(link)] for link in links]
            self._routes[ends] = columns, sum(link.latency_seconds for link in links)
        return self._routes[ends]

    def _chain_of_ring(self, flows: Mapping[Flow, int], chain: FloatArray) -> None:
        """Add to `chain` a chunk's way round: every hop in turn, each as fast as its own slowest link."""
        total = sum(flows.values())
        for flow, count in flows.items():
            slowest = min((self.resources.bytes_per_second[link] for link in self._route(flow)[0]), default=np.inf)
            share, weights = count / total, _weights(flow)
            chain[LINK] += share * weights / slowest
            if flow.through_cores:
                chain[MESSAGES] += 2 * share * _messages(flow)
                chain[COPIED] += 2 * share * weights

    def _fair_seconds(self, flows: Mapping[Flow, int]) -> FloatArray:
        """Seconds until the last flow has arrived when all share links fairly, for a unit of each quantity."""
        seconds = np.zeros(QUANTITIES)
        if len(flows) > MOST_FLOWS:
            return seconds
        routes = [self._route(flow)[0] for flow in flows]
        counts = np.array(list(flows.values()), dtype=np.float64)
        weights = np.array([_weights(flow) for flow in flows]).reshape(-1, QUANTITIES)
        for quantity in np.flatnonzero(weights.any(axis=0)):
            seconds[quantity] = last_arrival(routes, weights[:, quantity], counts, self.resources.bytes_per_second)
        return seconds

    def _add_work(self, loads: FloatArray, work: Work, on_server: bool) -> None:
        """Add work to `loads`; a GPU adds and updates in memory so fast that it is left out."""
        if "/gpu:" in work.device:
            return
        resources = self.resources
        node = resources.node_column[resources.node_of[work.device]]
        columns = [(node, float(resources.cores[node - resources.nodes.start]))]
        if on_server:
            columns.append((resources.server_column[work.device], 1.0))
        for column, cores in columns:
            loads[REDUCED, TOUCHED, column] += work.added / cores
            loads[UPDATED, TOUCHED, column] += work.updated_touched / cores
            loads[UPDATED, HELD, column] += work.updated_held / cores


def _weights(flow: Flow) -> FloatArray:
    """Bytes sent for a unit of each quantity."""
    weights = np.zeros(QUANTITIES)
    weights[[PAYLOAD, INDEX, TOUCHED, SCALES]] = flow.payload, flow.indices, flow.touched, flow.gradients * SCALE_BYTES
    return weights


def _messages(flow: Flow) -> FloatArray:
    messages = np.zeros(QUANTITIES)
    messages[[PIECES, SCALES]] = flow.messages, flow.gradients
    return messages


def exchange_seconds(
    cluster: ClusterSpec, stages: Sequence[Stage], payload_bytes: float, coefficients: ReplayCoefficients
) -> float:
    """Seconds of stages that follow one another, with so many bytes of payload."""
    maker = PartMaker(Resources(cluster))
    parts = [maker.of_stage(stage) for stage in stages]
    if not parts:
        return 0.0
    quantities = np.array(Quantities(payload_bytes=payload_bytes))
    costed = [maker.costed(part, coefficients) for part in parts]
    count = len(parts)
    tasks = Tasks(
        busy=np.stack([quantities @ each.busy for each in costed]),
        chain=np.array(
            [part.latency_seconds + quantities @ each.chain for part, each in zip(parts, costed, strict=True)]
        ),
        rank=range(count),
        line=range(count),
        successors=[*([each + 1] for each in range(count - 1)), []],
        waits_for=[0, *[1] * (count - 1)],
    )
    return float(replayed(tasks).end.max())

"""Parts of an exchange as loads on a cluster's resources; a part is one stage of messages or one piece of work.

Loads are linear in a shard's `Quantities` and in the coefficients. The kinds of cost are link seconds, messages, bytes
copied, bytes reduced and bytes updated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from autosync.cost.capacity import ResourceColumns, replicas_on_cores
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.gather_counts import pairs_of_all
from autosync.cost.replay.flows import last_arrival
from autosync.cost.replay.places import Pattern, Places, number_columns
from autosync.layout.exchange import SCALE_BYTES, DeviceWork, Quantities, Stage, Transfer
from autosync.numeric import FloatArray, IndexArray

LINK, MESSAGES, COPIED, REDUCED, UPDATED = range(5)
QUANTITIES = len(Quantities._fields)
PAYLOAD, INDEX, TOUCHED, HELD, PIECES, SCALES, _, ANSWERED = range(QUANTITIES)
MOST_FLOWS = 4096
"""The maximum number of flows in a stage for which fair shares are computed; with more, the busiest link decides."""


class NodeFlow(NamedTuple):
    """Equal transfers between two nodes, with the shares of `Transfer`."""

    source: str
    target: str
    payload: float
    indices: float
    touched: float
    answered: float
    messages: float
    gradients: float
    through_cores: bool = True
    """Whether cores handle the messages; False if the transfers stay in one process."""


@dataclass(frozen=True, eq=False)
class Part:
    """The loads of a part, for groups of equally loaded places."""

    loads: FloatArray
    """float64 (kinds, quantities, groups), in seconds, messages and bytes per unit of capacity."""

    pattern: Pattern
    """The group of each place."""

    node_groups: IndexArray
    """The groups of the nodes' cores, (nodes,)."""

    chain: FloatArray
    """float64 (kinds, quantities): the costs that follow one another on an idle cluster, including one addition."""

    latency_seconds: float = 0.0
    """The latency of the longest chain of messages."""

    ring_members: int = 0
    """The number of members of a ring; 0 for other parts. If a ring's chunks go round in pieces, the chain has only one
    piece."""


class PartCost(NamedTuple):
    """The costs of a part under given coefficients, in seconds per unit of each quantity."""

    busy: FloatArray
    """Seconds of each group, (quantities, groups)."""

    chain: FloatArray
    """Seconds of the chain, (quantities,)."""

    of_shard: FloatArray
    """Seconds that each shard sent off takes of each group, (groups,)."""


@final
class PartMaker:
    """Makes the parts of exchanges among the replicas of one cluster."""

    def __init__(self, resources: ResourceColumns, replicas: Sequence[str]) -> None:
        self.resources = resources
        self.places = Places(resources, tuple(replicas))
        self.replicas_a_core = replicas_on_cores(resources.cluster, replicas) / resources.cores

    def of_stage(self, stage: Stage, added: Sequence[DeviceWork] = ()) -> Part:
        """The part of one stage of messages, with the work done while messages arrive."""
        return self.of_flows(Counter(map(self._flow, stage.transfers)), stage.rounds, added)

    def of_flows(self, flows: Mapping[NodeFlow, int], rounds: int = 1, added: Sequence[DeviceWork] = ()) -> Part:
        """The part of `flows` with their counts. All flows begin at the same time."""
        loads = np.zeros((5, QUANTITIES, self.resources.count))
        chain = np.zeros((5, QUANTITIES))
        counts = np.array(list(flows.values()), dtype=np.float64)
        weights = np.array([_weights(flow) for flow in flows]).reshape(-1, QUANTITIES)
        messages = np.array([_messages(flow) for flow in flows]).reshape(-1, QUANTITIES)
        routes = [self.places.alike.route(flow.source, flow.target) for flow in flows]
        self._add_to_links(loads, [links for links, _ in routes], counts[:, None] * weights)
        outside = np.array([flow.through_cores for flow in flows], dtype=np.bool_)
        node = self.resources.node_column
        ends = [(node[flow.source], node[flow.target]) for flow in flows]
        at = np.array(ends, dtype=np.intp).reshape(-1, 2)[outside]
        self._add_to_cores(loads[MESSAGES], at, counts[outside, None] * messages[outside])
        self._add_to_cores(loads[COPIED], at, counts[outside, None] * weights[outside])
        if rounds > 2:
            self._chain_of_ring(flows, chain)
        else:
            if outside.any():
                chain[MESSAGES], chain[COPIED] = 2 * messages[outside].max(axis=0), 2 * weights[outside].max(axis=0)
            chain[LINK] = self._fair_seconds(flows)
        if added:
            chain[REDUCED] = chain[COPIED] / 2
        for work in added:
            self._add_work(loads, work, on_server=False)
        latency = max((seconds for _, seconds in routes), default=0.0)
        return self._fold(loads, chain, rounds * latency, rounds // 2 + 1 if rounds > 2 else 0)

    def of_everyone(self, like: Transfer) -> Part:
        """The part in which every replica sends a message like `like` to every other replica."""
        flow = self.flow_like(like, "", "", through_cores=True)
        pairs = pairs_of_all(self.places.alike)
        loads, chain = (np.zeros((5, QUANTITIES, *of)) for of in ((self.resources.count,), ()))
        links, nodes, weights = self.resources.links, self.resources.nodes, _weights(flow)
        loads[LINK, :, links] = np.outer(weights, pairs.over_links[links] / self.resources.bytes_per_second)
        for kind, of_flow in ((MESSAGES, _messages(flow)), (COPIED, weights)):
            loads[kind, :, nodes] = np.outer(of_flow, pairs.at_cores[nodes] / self.resources.cores)
            chain[kind] = 2 * of_flow
        return self._fold(loads, chain, pairs.latency_seconds)

    def of_work(self, works: Iterable[DeviceWork], server: str | None) -> Part:
        """The part of adding and updating, between the messages before it and the messages after it."""
        loads = np.zeros((5, QUANTITIES, self.resources.count))
        for work in works:
            self._add_work(loads, work, on_server=work.device == server)
        return self._fold(loads, np.zeros((5, QUANTITIES)))

    def on_device(self, part: Part, device: str, twin: str) -> Part:
        """The part of the device `twin`, given the part of an interchangeable `device`."""
        places = self.places.swap(part.pattern.group_of(self.resources.count), device, twin)
        return replace(part, pattern=Pattern.of(places, part.pattern.groups))

    def cost(self, part: Part, coefficients: ReplayCoefficients) -> PartCost:
        """The costs of `part` under `coefficients`."""
        resources, at = self.resources, part.node_groups
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
        of_shard = np.zeros(part.pattern.groups)
        of_shard[at] = self.replicas_a_core * coefficients.core_seconds_per_shard
        shared = slice(part.pattern.groups - len(resources.machines), None)
        for seconds in (busy, of_shard):
            seconds[..., shared] = resources.on_machines(seconds[..., at])
        return PartCost(busy, rates @ part.chain, of_shard)

    def _fold(self, loads: FloatArray, chain: FloatArray, latency: float = 0.0, ring_members: int = 0) -> Part:
        """The part with equally loaded places in groups.

        Cores of nodes with replicas are in a group even without load, because shards that are sent off load them.
        Shared machines have the last groups, one group each.
        """
        resources, of_column = self.resources, self.places.of_column
        looks = np.zeros((loads.shape[0] * loads.shape[1] + 2, resources.count))
        looks[:-2] = loads.reshape(-1, resources.count)
        looks[-2, resources.nodes] = self.replicas_a_core
        looks[-1, resources.nodes] = 1.0
        number, first = number_columns(looks)
        groups, machines = len(first), len(resources.machines)
        number[resources.shared] = groups + np.arange(machines)
        group_of = np.empty_like(number)
        group_of[of_column] = number
        of_groups = np.zeros((*loads.shape[:2], groups + machines))
        of_groups[..., :groups] = loads[..., first]
        pattern = Pattern.of(group_of, groups + machines)
        return Part(of_groups, pattern, number[resources.nodes], chain, latency, ring_members)

    def _add_to_links(self, loads: FloatArray, routes: Sequence[Sequence[int]], weights: FloatArray) -> None:
        """Add the loads of flows with these `weights` (flows, quantities) to the links of their routes."""
        flow = np.repeat(np.arange(len(routes)), [len(route) for route in routes])
        link = np.array([column for route in routes for column in route], dtype=np.intp)
        for quantity in np.flatnonzero(weights.any(axis=0)):
            seconds = weights[flow, quantity] / self.resources.bytes_per_second[link]
            loads[LINK, quantity] += np.bincount(link, seconds, minlength=self.resources.count)

    def _add_to_cores(self, loads: FloatArray, ends: IndexArray, weights: FloatArray) -> None:
        """Add `weights` (flows, quantities) to `loads` (quantities, columns) at both `ends` (flows, 2) of each flow."""
        node = ends.ravel()
        cores = self.resources.cores[node - self.resources.nodes.start]
        for quantity in np.flatnonzero(weights.any(axis=0)):
            of_ends = np.repeat(weights[:, quantity], 2) / cores
            loads[quantity] += np.bincount(node, of_ends, minlength=self.resources.count)

    def flow_like(self, transfer: Transfer, source: str, target: str, through_cores: bool) -> NodeFlow:
        """A flow between two nodes with the shares of `transfer`."""
        of_bytes = transfer.payload, transfer.index, transfer.touched, transfer.answered
        return NodeFlow(source, target, *of_bytes, transfer.messages, transfer.gradients, through_cores)

    def _flow(self, transfer: Transfer) -> NodeFlow:
        source, target = (self.resources.node_of[device] for device in (transfer.source, transfer.target))
        within = source == target and "/gpu:" in transfer.source and "/gpu:" in transfer.target
        return self.flow_like(transfer, source, target, not within)

    def _chain_of_ring(self, flows: Mapping[NodeFlow, int], chain: FloatArray) -> None:
        """Add a chunk's way round to `chain`: all hops in sequence, each as fast as its slowest link."""
        total = sum(flows.values())
        for flow, count in flows.items():
            slowest = min(
                (
                    self.resources.bytes_per_second[link]
                    for link in self.places.alike.route(flow.source, flow.target)[0]
                ),
                default=np.inf,
            )
            share, weights = count / total, _weights(flow)
            chain[LINK] += share * weights / slowest
            if flow.through_cores:
                chain[MESSAGES] += 2 * share * _messages(flow)
                chain[COPIED] += 2 * share * weights

    def _fair_seconds(self, flows: Mapping[NodeFlow, int]) -> FloatArray:
        """Seconds until the last flow has arrived if flows share links fairly, for a unit of each quantity."""
        seconds = np.zeros(QUANTITIES)
        if len(flows) > MOST_FLOWS:
            return seconds
        routes = [self.places.alike.route(flow.source, flow.target)[0] for flow in flows]
        counts = np.array(list(flows.values()), dtype=np.float64)
        weights = np.array([_weights(flow) for flow in flows]).reshape(-1, QUANTITIES)
        for quantity in np.flatnonzero(weights.any(axis=0)):
            seconds[quantity] = last_arrival(routes, weights[:, quantity], counts, self.resources.bytes_per_second)
        return seconds

    def _add_work(self, loads: FloatArray, work: DeviceWork, on_server: bool) -> None:
        """Add work to `loads`. A GPU's work is left out, because its memory is fast enough."""
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


def _weights(flow: NodeFlow) -> FloatArray:
    """Bytes sent for a unit of each quantity."""
    weights = np.zeros(QUANTITIES)
    weights[[PAYLOAD, INDEX, TOUCHED, ANSWERED]] = flow.payload, flow.indices, flow.touched, flow.answered
    weights[SCALES] = flow.gradients * SCALE_BYTES
    return weights


def _messages(flow: NodeFlow) -> FloatArray:
    messages = np.zeros(QUANTITIES)
    messages[[PIECES, SCALES]] = flow.messages, flow.gradients
    return messages

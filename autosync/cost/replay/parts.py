"""Parts of an exchange, one stage of messages or one piece of work each, as loads on a cluster's resources.

Everything is linear in a shard's `Quantities`, and in the coefficients. A part's kinds of cost are link seconds,
messages, bytes copied, bytes reduced and bytes updated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import Resources, replicas_on_cores
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.everyone import pairs_of_all
from autosync.cost.replay.flows import last_arrival
from autosync.cost.replay.places import Pattern, Places, numbered_alike
from autosync.layout.exchange import SCALE_BYTES, Quantities, Stage, Transfer, Work

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

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
    """`loads` float64 (kinds, quantities, groups), in seconds, messages and bytes a unit of capacity, of each group of
    places in `pattern`, which are loaded alike.

    `node_groups` (nodes,) are the groups of the nodes' cores. `chain` float64 (kinds, quantities) is what follows one
    another in a part that has an idle cluster to itself, one unit of what it adds included; `latency_seconds` is that
    of its chain of messages. Of a ring, `ring_members` counts who is in it: where its chunks go round in pieces, only
    one of these is in the chain.
    """

    loads: FloatArray
    pattern: Pattern
    node_groups: IntArray
    chain: FloatArray
    latency_seconds: float = 0.0
    ring_members: int = 0


class Costed(NamedTuple):
    """A part under some coefficients, seconds a unit of each quantity: `busy` (quantities, groups), `chain`; and what a
    shard that sets out takes of each group, (groups,)."""

    busy: FloatArray
    chain: FloatArray
    of_shard: FloatArray


@final
class PartMaker:
    """Makes parts of exchanges on one cluster with its replicas."""

    def __init__(self, resources: Resources, replicas: Sequence[str]) -> None:
        self.resources = resources
        self.places = Places(resources, tuple(replicas))
        self.replicas_a_core = replicas_on_cores(resources.cluster, replicas) / resources.cores

    def of_stage(self, stage: Stage, added: Sequence[Work] = ()) -> Part:
        """The part that is a stage of messages, with the work that is done on the way."""
        return self.of_flows(Counter(map(self._flow, stage.transfers)), stage.rounds, added)

    def of_flows(self, flows: Mapping[Flow, int], rounds: int = 1, added: Sequence[Work] = ()) -> Part:
        """The part that is as many of each of `flows` as stated, which all begin at the same time."""
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
        return self._folded(loads, chain, rounds * latency, rounds // 2 + 1 if rounds > 2 else 0)

    def of_everyone(self, like: Transfer) -> Part:
        """The part in which every replica sends what `like` takes to each other."""
        one = self.flow_like(like, "", "", through_cores=True)
        pairs = pairs_of_all(self.places.alike)
        loads, chain = (np.zeros((5, QUANTITIES, *of)) for of in ((self.resources.count,), ()))
        links, nodes, weights = self.resources.links, self.resources.nodes, _weights(one)
        loads[LINK, :, links] = np.outer(weights, pairs.over_links[links] / self.resources.bytes_per_second)
        for kind, each in ((MESSAGES, _messages(one)), (COPIED, weights)):
            loads[kind, :, nodes] = np.outer(each, pairs.at_cores[nodes] / self.resources.cores)
            chain[kind] = 2 * each
        return self._folded(loads, chain, pairs.latency_seconds)

    def of_work(self, works: Iterable[Work], server: str | None) -> Part:
        """The part that is adding up and updating, after the messages before it and before those after."""
        loads = np.zeros((5, QUANTITIES, self.resources.count))
        for work in works:
            self._add_work(loads, work, on_server=work.device == server)
        return self._folded(loads, np.zeros((5, QUANTITIES)))

    def of_other(self, part: Part, device: str, other: str) -> Part:
        """What `part` is of a device, of one that is like it."""
        places = self.places.exchanged(part.pattern.group_of(self.resources.count), device, other)
        return replace(part, pattern=Pattern.of(places, part.pattern.groups))

    def costed(self, part: Part, coefficients: ReplayCoefficients) -> Costed:
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
        return Costed(busy, rates @ part.chain, of_shard)

    def _folded(self, loads: FloatArray, chain: FloatArray, latency: float = 0.0, ring_members: int = 0) -> Part:
        """The part with the places that are loaded alike in groups; cores of nodes that are like each other beside.

        Cores of nodes with replicas are in a group even where nothing loads them, for shards that set out; shared
        machines have the last groups, a group each.
        """
        resources, of_column = self.resources, self.places.of_column
        looks = np.zeros((loads.shape[0] * loads.shape[1] + 2, resources.count))
        looks[:-2] = loads.reshape(-1, resources.count)
        looks[-2, resources.nodes] = self.replicas_a_core
        looks[-1, resources.nodes] = 1.0
        number, first = numbered_alike(looks)
        groups, machines = len(first), len(resources.machines)
        number[resources.shared] = groups + np.arange(machines)
        group_of = np.empty_like(number)
        group_of[of_column] = number
        kept = np.zeros((*loads.shape[:2], groups + machines))
        kept[..., :groups] = loads[..., first]
        pattern = Pattern.of(group_of, groups + machines)
        return Part(kept, pattern, number[resources.nodes], chain, latency, ring_members)

    def _add_to_links(self, loads: FloatArray, routes: Sequence[Sequence[int]], weights: FloatArray) -> None:
        """Add what flows with these `weights` (flows, quantities) load onto the links of their routes."""
        flow = np.repeat(np.arange(len(routes)), [len(each) for each in routes])
        link = np.array([each for route in routes for each in route], dtype=np.intp)
        for quantity in np.flatnonzero(weights.any(axis=0)):
            seconds = weights[flow, quantity] / self.resources.bytes_per_second[link]
            loads[LINK, quantity] += np.bincount(link, seconds, minlength=self.resources.count)

    def _add_to_cores(self, loads: FloatArray, ends: IntArray, weights: FloatArray) -> None:
        """Add `weights` (flows, quantities) to `loads` (quantities, columns) of both `ends` (flows, 2) of each flow."""
        node = ends.ravel()
        cores = self.resources.cores[node - self.resources.nodes.start]
        for quantity in np.flatnonzero(weights.any(axis=0)):
            each = np.repeat(weights[:, quantity], 2) / cores
            loads[quantity] += np.bincount(node, each, minlength=self.resources.count)

    def flow_like(self, transfer: Transfer, source: str, target: str, through_cores: bool) -> Flow:
        """A flow between two nodes of what `transfer` takes."""
        shares = transfer.payload, transfer.index, transfer.touched, transfer.messages, transfer.gradients
        return Flow(source, target, *shares, through_cores)

    def _flow(self, transfer: Transfer) -> Flow:
        source, target = (self.resources.node_of[each] for each in (transfer.source, transfer.target))
        within = source == target and "/gpu:" in transfer.source and "/gpu:" in transfer.target
        return self.flow_like(transfer, source, target, not within)

    def _chain_of_ring(self, flows: Mapping[Flow, int], chain: FloatArray) -> None:
        """Add to `chain` a chunk's way round: every hop in turn, each as fast as its own slowest link."""
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

    def _fair_seconds(self, flows: Mapping[Flow, int]) -> FloatArray:
        """Seconds until the last flow has arrived when all share links fairly, for a unit of each quantity."""
        seconds = np.zeros(QUANTITIES)
        if len(flows) > MOST_FLOWS:
            return seconds
        routes = [self.places.alike.route(flow.source, flow.target)[0] for flow in flows]
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

"""Projects exchanges between devices to loads on links, nodes and servers, in rows of matrices.

Every exchange has one row for each of a shard's `Quantities`. The rows times the shard's quantities are its loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import numpy as np

from autosync.cost.gather_counts import Pairs
from autosync.cost.node_classes import NodeClasses
from autosync.layout.exchange import SCALE_BYTES, DeviceWork, Exchange, Quantities, Stage, Transfer
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, Device, Link

PAYLOAD, INDEX, TOUCHED, HELD, PIECES, SCALES, _, ANSWERED = range(len(Quantities._fields))


@dataclass(frozen=True)
class Columns:
    """The slices of each kind of column in a projection's matrices; links, nodes and servers in the cluster's order."""

    link_bytes: slice
    link_messages: slice
    node_bytes: slice
    node_messages: slice
    node_work_bytes: slice
    server_reduced_bytes: slice
    server_updated_bytes: slice

    @classmethod
    def of_cluster(cls, cluster: ClusterSpec) -> Columns:
        links, nodes, servers = len(cluster.links), len(cluster.nodes), len(cluster.server_devices)
        ends = list(accumulate([links, links, nodes, nodes, nodes, servers, servers]))
        return cls(*(slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)))

    @property
    def count(self) -> int:
        return int(self.server_updated_bytes.stop)

    @property
    def resources(self) -> tuple[slice, slice, slice]:
        """The slices of links, nodes and servers among resources, as in `ResourceColumns`."""
        links = self.link_bytes.stop
        nodes = links + self.node_bytes.stop - self.node_bytes.start
        servers = nodes + self.server_reduced_bytes.stop - self.server_reduced_bytes.start
        return slice(0, links), slice(links, nodes), slice(nodes, servers)

    def of_resources(self, resources: Sequence[int]) -> list[int]:
        """The columns of some links, nodes and servers, given their columns in `ResourceColumns`."""
        links, nodes = self.link_bytes.stop, self.node_bytes.stop - self.node_bytes.start
        columns = []
        for resource in resources:
            if resource < links:
                columns += [at.start + resource for at in (self.link_bytes, self.link_messages)]
            elif resource < links + nodes:
                of_node = self.node_bytes, self.node_messages, self.node_work_bytes
                columns += [at.start + resource - links for at in of_node]
            else:
                of_server = self.server_reduced_bytes, self.server_updated_bytes
                columns += [at.start + resource - links - nodes for at in of_server]
        return columns


@dataclass(frozen=True, eq=False)
class ExchangeLoads:
    """The loads of one exchange, float64 (8, columns), one row for each of `Quantities`."""

    pull: FloatArray
    """Loads before the forward pass."""

    push: FloatArray
    """Loads of gradients."""

    back: FloatArray
    """Loads of values that a server sends back after its update."""

    latency_seconds: float
    """The latency of the longest chain of messages."""

    seconds_a_byte: float
    """Seconds to push a byte of payload if every stage waits for the previous one."""

    node: str = ""
    """The server's node."""

    first: str = ""
    """An interchangeable node. The loads are those of a server on `first`; if `node` differs, the columns of both nodes
    have to be swapped."""

    def on_own_node(self, way: str, alike: NodeClasses, columns: Columns) -> FloatArray:
        """`pull`, `push` or `back` for the server on `node`, (8, columns)."""
        loads: FloatArray = getattr(self, way)
        if self.node == self.first:
            return loads
        here, there = (columns.of_resources(alike.columns[node]) for node in (self.node, self.first))
        swapped: FloatArray = loads.copy()
        swapped[:, here], swapped[:, there] = loads[:, there], loads[:, here]
        return swapped

    def of_resource(self, resource: int, alike: NodeClasses) -> int:
        """The resource whose column in `pull`, `push` and `back` holds the loads of `resource`."""
        if self.node == self.first:
            return resource
        here, there = alike.columns[self.node], alike.columns[self.first]
        return dict(zip([*here, *there], [*there, *here], strict=True)).get(resource, resource)


@final
class Projection:
    """Projects exchanges onto the links, nodes and servers of one cluster."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._link_number = {id(link): number for number, link in enumerate(cluster.links)}
        self._node_number = {node.name: number for number, node in enumerate(cluster.nodes)}
        self._server_number = {str(device): number for number, device in enumerate(cluster.server_devices)}
        self._device = {
            str(device): device for node in cluster.nodes for device in (*node.cpu_devices, *node.gpu_devices)
        }
        self.columns = Columns.of_cluster(cluster)

    def of(self, exchange: Exchange) -> ExchangeLoads:
        pull, push, back = (np.zeros((len(Quantities._fields), self.columns.count)) for _ in range(3))
        for matrix, stages in ((back if exchange.sends_back else pull, exchange.pull), (push, exchange.push)):
            for stage in stages:
                for transfer in stage.transfers:
                    self._add_transfer(matrix, transfer)
        for work in exchange.work:
            self._add_work(push, work, exchange.server)
        latency = sum(self._latency_seconds(stage) for stage in (*exchange.pull, *exchange.push))
        return ExchangeLoads(pull, push, back, latency, sum(map(self._seconds_a_byte, exchange.push)))

    def of_gather(self, stages: Sequence[Pairs], like: Transfer, work: Sequence[DeviceWork]) -> ExchangeLoads:
        """The loads of a gather with messages like `like` between these pairs, stage by stage, and of `work`."""
        pull, push, back = (np.zeros((len(Quantities._fields), self.columns.count)) for _ in range(3))
        at, (links, nodes, _) = self.columns, self.columns.resources
        message = np.zeros((len(Quantities._fields), 2))
        _add(message, 0, 1, like)
        slowest, rates = 0.0, np.array([link.bytes_per_second for link in self._cluster.links])
        for stage in stages:
            over_links, at_cores = stage.over_links[links], stage.at_cores[nodes]
            push[:, at.link_bytes] += np.outer(message[:, 0], over_links)
            push[:, at.link_messages] += np.outer(message[:, 1], over_links)
            push[:, at.node_bytes] += np.outer(message[:, 0], at_cores)
            push[:, at.node_messages] += np.outer(message[:, 1], at_cores)
            slowest += like.payload * float((over_links / rates).max())
        for of_device in work:
            self._add_work(push, of_device, None)
        return ExchangeLoads(pull, push, back, sum(stage.latency_seconds for stage in stages), slowest)

    def _latency_seconds(self, stage: Stage) -> float:
        """The stage's rounds times the longest route's latency."""
        routes = (self._route(transfer) for transfer in stage.transfers)
        return stage.rounds * max((sum(link.latency_seconds for link in route) for route in routes), default=0.0)

    def _seconds_a_byte(self, stage: Stage) -> float:
        """Seconds a byte on the link that the stage's payload keeps busy for the longest time."""
        busy: dict[int, float] = {}
        for transfer in stage.transfers:
            for link in self._route(transfer):
                busy[id(link)] = busy.get(id(link), 0.0) + transfer.payload / link.bytes_per_second
        return max(busy.values(), default=0.0)

    def _route(self, transfer: Transfer) -> tuple[Link, ...]:
        return self._cluster.route(self._device[transfer.source].node, self._device[transfer.target].node)

    def _add_transfer(self, matrix: FloatArray, transfer: Transfer) -> None:
        at = self.columns
        for link in self._route(transfer):
            number = self._link_number[id(link)]
            _add(matrix, at.link_bytes.start + number, at.link_messages.start + number, transfer)
        ends = self._device[transfer.source], self._device[transfer.target]
        if ends[0].kind == ends[1].kind == "gpu" and ends[0].node == ends[1].node:
            return  # inside one process: no message is written or read
        for end in ends:
            number = self._node_number[end.node]
            _add(matrix, at.node_bytes.start + number, at.node_messages.start + number, transfer)

    def _add_work(self, matrix: FloatArray, work: DeviceWork, server: str | None) -> None:
        """Add work on a node's cores. A GPU's work is left out, because its memory is fast enough."""
        device: Device = self._device[work.device]
        if device.kind == "gpu":
            return
        at = self.columns
        node = at.node_work_bytes.start + self._node_number[device.node]
        matrix[TOUCHED, node] += work.added + work.updated_touched
        matrix[HELD, node] += work.updated_held
        if work.device == server:
            number = self._server_number[server]
            matrix[TOUCHED, at.server_reduced_bytes.start + number] += work.added
            matrix[TOUCHED, at.server_updated_bytes.start + number] += work.updated_touched
            matrix[HELD, at.server_updated_bytes.start + number] += work.updated_held


def _add(matrix: FloatArray, of_bytes: int, of_messages: int, transfer: Transfer) -> None:
    """Add the transfer to the columns `of_bytes` and `of_messages` of one link or node."""
    matrix[PAYLOAD, of_bytes] += transfer.payload
    matrix[INDEX, of_bytes] += transfer.index
    matrix[TOUCHED, of_bytes] += transfer.touched
    matrix[ANSWERED, of_bytes] += transfer.answered
    matrix[SCALES, of_bytes] += transfer.gradients * SCALE_BYTES
    matrix[PIECES, of_messages] += transfer.messages
    matrix[SCALES, of_messages] += transfer.gradients

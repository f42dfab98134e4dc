"""Exchanges between devices as what each link, node and server gets of them, in rows of matrices.

Every exchange has a row for each of a shard's `Quantities`; multiplied with a shard's quantities they give its share of
the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.alike import Alike
from autosync.cost.everyone import Pairs
from autosync.layout.exchange import SCALE_BYTES, Exchange, Quantities, Stage, Transfer, Work
from autosync.spec import ClusterSpec, Device, Link

PAYLOAD, INDEX, TOUCHED, HELD, PIECES, SCALES, _ = range(len(Quantities._fields))

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The places of each kind of column in a projection's matrices; links, nodes and servers in the cluster's order."""

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
        """The places of links, nodes and servers among resources, as in `Resources`."""
        links = self.link_bytes.stop
        nodes = links + self.node_bytes.stop - self.node_bytes.start
        servers = nodes + self.server_reduced_bytes.stop - self.server_reduced_bytes.start
        return slice(0, links), slice(links, nodes), slice(nodes, servers)

    def of_resources(self, resources: Sequence[int]) -> list[int]:
        """The columns of some links, nodes and servers, by their columns in `Resources`."""
        links, nodes = self.link_bytes.stop, self.node_bytes.stop - self.node_bytes.start
        found = []
        for each in resources:
            if each < links:
                found += [at.start + each for at in (self.link_bytes, self.link_messages)]
            elif each < links + nodes:
                of_node = self.node_bytes, self.node_messages, self.node_work_bytes
                found += [at.start + each - links for at in of_node]
            else:
                of_server = self.server_reduced_bytes, self.server_updated_bytes
                found += [at.start + each - links - nodes for at in of_server]
        return found


@dataclass(frozen=True, eq=False)
class Projected:
    """What one exchange loads: `pull`, `push` and `back` float64 (7, columns), a row for each of `Quantities`.

    `back` is what a server sends back after its update.
    `latency_seconds` is that of its longest chain of messages, `seconds_a_byte` how long a byte of payload takes to be
    pushed where each stage waits for the one before. The loads of an exchange with a server on `node` are those of one
    on the node `first`, which is like it: where these differ they have to change places.
    """

    pull: FloatArray
    push: FloatArray
    back: FloatArray
    latency_seconds: float
    seconds_a_byte: float
    node: str = ""
    first: str = ""

    def moved(self, way: str, alike: Alike, columns: Columns) -> FloatArray:
        """The exchange's own `pull`, `push` or `back`, (7, columns)."""
        loads: FloatArray = getattr(self, way)
        if self.node == self.first:
            return loads
        here, there = (columns.of_resources(alike.own[node]) for node in (self.node, self.first))
        found: FloatArray = loads.copy()
        found[:, here], found[:, there] = loads[:, there], loads[:, here]
        return found

    def of_resource(self, resource: int, alike: Alike) -> int:
        """The resource of the exchange whose loads these are that stands for one of this exchange."""
        if self.node == self.first:
            return resource
        here, there = alike.own[self.node], alike.own[self.first]
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

    def of(self, exchange: Exchange) -> Projected:
        pull, push, back = (np.zeros((len(Quantities._fields), self.columns.count)) for _ in range(3))
        for matrix, stages in ((back if exchange.sends_back else pull, exchange.pull), (push, exchange.push)):
            for stage in stages:
                for transfer in stage.transfers:
                    self._add_transfer(matrix, transfer)
        for work in exchange.work:
            self._add_work(push, work, exchange.server)
        latency = sum(self._latency_seconds(stage) for stage in (*exchange.pull, *exchange.push))
        return Projected(pull, push, back, latency, sum(map(self._seconds_a_byte, exchange.push)))

    def of_gather(self, stages: Sequence[Pairs], like: Transfer, work: Sequence[Work]) -> Projected:
        """What a gather loads of messages like `like` between these pairs, stage by stage, and of `work`."""
        pull, push, back = (np.zeros((len(Quantities._fields), self.columns.count)) for _ in range(3))
        at, (links, nodes, _) = self.columns, self.columns.resources
        one = np.zeros((len(Quantities._fields), 2))
        _add(one, 0, 1, like)
        slowest, rates = 0.0, np.array([link.bytes_per_second for link in self._cluster.links])
        for stage in stages:
            over_links, at_cores = stage.over_links[links], stage.at_cores[nodes]
            push[:, at.link_bytes] += np.outer(one[:, 0], over_links)
            push[:, at.link_messages] += np.outer(one[:, 1], over_links)
            push[:, at.node_bytes] += np.outer(one[:, 0], at_cores)
            push[:, at.node_messages] += np.outer(one[:, 1], at_cores)
            slowest += like.payload * float((over_links / rates).max())
        for each in work:
            self._add_work(push, each, None)
        return Projected(pull, push, back, sum(each.latency_seconds for each in stages), slowest)

    def _latency_seconds(self, stage: Stage) -> float:
        """The stage's rounds times the longest route's latency."""
        routes = (self._route(each) for each in stage.transfers)
        return stage.rounds * max((sum(link.latency_seconds for link in route) for route in routes), default=0.0)

    def _seconds_a_byte(self, stage: Stage) -> float:
        """Seconds a byte on the link that the stage's payload keeps busy longest."""
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
            return  # within one process: no message to write or read
        for end in ends:
            number = self._node_number[end.node]
            _add(matrix, at.node_bytes.start + number, at.node_messages.start + number, transfer)

    def _add_work(self, matrix: FloatArray, work: Work, server: str | None) -> None:
        """Add work on a node's cores; a GPU adds and updates in memory so fast that it is left out."""
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
    matrix[SCALES, of_bytes] += transfer.gradients * SCALE_BYTES
    matrix[PIECES, of_messages] += transfer.messages
    matrix[SCALES, of_messages] += transfer.gradients

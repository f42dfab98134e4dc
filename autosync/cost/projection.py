"""From an exchange between devices to what each link, node and server gets of it, as rows of matrices.

Every exchange has four rows, one for each of a shard's `Quantities`; multiplied with a shard's quantities they give
its share of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.exchange import Exchange, Quantities, Transfer, Work
from autosync.spec import ClusterSpec, Device, Link

__all__ = ["Columns", "Projection"]

PAYLOAD, INDEX, HELD, PIECES = range(len(Quantities._fields))

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Where each kind of column lies in a projection's matrices; links, nodes and servers in the cluster's order."""

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


@final
class Projection:
    """The matrices of a cluster's exchanges: `rows(exchange)` gives the pull's and the push's, (4, columns) each."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._link_number = {id(link): number for number, link in enumerate(cluster.links)}
        self._node_number = {node.name: number for number, node in enumerate(cluster.nodes)}
        self._server_number = {str(device): number for number, device in enumerate(cluster.server_devices)}
        self._device = {
            str(device): device for node in cluster.nodes for device in (*node.cpu_devices, *node.gpu_devices)
        }
        self.columns = Columns.of_cluster(cluster)

    def rows(self, exchange: Exchange) -> tuple[FloatArray, FloatArray]:
        pull, push = (np.zeros((len(Quantities._fields), self.columns.count)) for _ in range(2))
        for transfer in exchange.pull:
            self._add_transfer(pull, transfer)
        for transfer in exchange.push:
            self._add_transfer(push, transfer)
        for work in exchange.work:
            self._add_work(push, work, exchange.server)
        return pull, push

    def latency_seconds(self, transfers: Sequence[Transfer], rounds: int) -> float:
        """`rounds` times the longest route's latency."""
        routes = (self._route(each) for each in transfers)
        return rounds * max((sum(link.latency_seconds for link in route) for route in routes), default=0.0)

    def _route(self, transfer: Transfer) -> tuple[Link, ...]:
        return self._cluster.route(self._device[transfer.source].node, self._device[transfer.target].node)

    def _add_transfer(self, matrix: FloatArray, transfer: Transfer) -> None:
        at = self.columns
        for link in self._route(transfer):
            number = self._link_number[id(link)]
            matrix[PAYLOAD, at.link_bytes.start + number] += transfer.payload
            matrix[INDEX, at.link_bytes.start + number] += transfer.index
            matrix[PIECES, at.link_messages.start + number] += transfer.messages
        ends = self._device[transfer.source], self._device[transfer.target]
        if ends[0].kind == ends[1].kind == "gpu" and ends[0].node == ends[1].node:
            return  # within one process: no message to write or read
        for end in ends:
            number = self._node_number[end.node]
            matrix[PAYLOAD, at.node_bytes.start + number] += transfer.payload
            matrix[INDEX, at.node_bytes.start + number] += transfer.index
            matrix[PIECES, at.node_messages.start + number] += transfer.messages

    def _add_work(self, matrix: FloatArray, work: Work, server: str | None) -> None:
        """Work on a node's cores; a GPU adds and updates in memory so fast that it is left out."""
        device: Device = self._device[work.device]
        if device.kind == "gpu":
            return
        at = self.columns
        node = at.node_work_bytes.start + self._node_number[device.node]
        matrix[PAYLOAD, node] += work.reduced_payload + work.updated_payload
        matrix[HELD, node] += work.updated_held
        if work.device == server:
            number = self._server_number[server]
            matrix[PAYLOAD, at.server_reduced_bytes.start + number] += work.reduced_payload
            matrix[PAYLOAD, at.server_updated_bytes.start + number] += work.updated_payload
            matrix[HELD, at.server_updated_bytes.start + number] += work.updated_held

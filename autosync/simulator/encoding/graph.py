"""A strategy as a graph of variables, servers, buckets, links, switches and the hub of all replicas.

Nodes are numbered variables first, then servers, buckets, links, switches, and the hub last. Edges go both ways: data
flow between neighbours in the model's order, placement of variables on servers, membership of variables in buckets, and
topology (server and link, link and switch, hub and bucket, hub and server). A shard is an edge, whose inputs include
its share of the variable.
"""

from dataclasses import dataclass

import numpy as np

from autosync.cost.replay.figures import StepFigures
from autosync.numeric import FloatArray, IndexArray
from autosync.simulator.encoding.places import ClusterShape
from autosync.simulator.encoding.shards import WAYS, ShardColumns
from autosync.simulator.encoding.variables import VariableWeights

SERVER_INPUTS = (
    "log_bytes_over_mean",
    "replicas_share",
    "topology_log_rate",
    "topology_log_cores",
    "replay_server_utilization",
    "replay_cores_utilization",
)
BUCKET_INPUTS = ("bytes_share", "log_shards", "ready_fraction", *(f"{way}" for way in WAYS[2:]), "replay_arrived_share")
LINK_INPUTS = ("topology_log_rate", "loopback", "between_switches", "replay_utilization")
EDGE_INPUTS = (
    "data_flow",
    "placement",
    "membership",
    "topology",
    "back",
    "variable_share",
    "log_coded_ratio",
    "copies",
)
DATA_FLOW, PLACEMENT, MEMBERSHIP, TOPOLOGY, BACK, SHARE, CODED, COPIES = range(len(EDGE_INPUTS))


@dataclass(frozen=True, eq=False)
class GraphEncoding:
    """A strategy's graph as arrays. Variables, switches and the hub have no inputs here."""

    servers: FloatArray
    """float64 (servers, inputs)"""
    buckets: FloatArray
    """float64 (buckets, inputs)"""
    links: FloatArray
    """float64 (links, inputs)"""
    switches: int
    """The number of switches."""
    edges: IndexArray
    """Source and target node of each edge, int (2, edges)."""
    edge_inputs: FloatArray
    """float64 (edges, inputs)"""


def graph_encoding(
    weights: VariableWeights,
    shards: ShardColumns,
    order: IndexArray,
    shape: ClusterShape,
    figures: StepFigures | None,
    topology: bool = True,
) -> GraphEncoding:
    """Encode a strategy. `order` lists the variables in the order of data flow. Without `topology`, omit links and
    switches.
    """
    variables, buckets = len(weights.ready), shards.buckets
    links = len(shape.resources.cluster.links) if topology else 0
    switches = len(shape.resources.cluster.switches) if topology else 0
    server_at = variables
    bucket_at = server_at + shape.servers
    link_at = bucket_at + buckets
    switch_at = link_at + links
    hub = switch_at + switches
    builder = _Edges()
    builder.add(order[:-1], order[1:], DATA_FLOW)
    _add_shards(builder, shards, server_at, bucket_at)
    if topology:
        node, link = np.nonzero(shape.attached)
        server, which = np.nonzero(shape.node_of_server[:, None] == node[None, :])
        builder.add(server_at + server, link_at + link[which], TOPOLOGY)
        builder.add(link_at + shape.link_switch_pairs[0], switch_at + shape.link_switch_pairs[1], TOPOLOGY)
    with_replicas = np.flatnonzero(shape.replicas_share[shape.node_of_server] > 0)
    members = np.concatenate([server_at + with_replicas, bucket_at + np.arange(buckets)])
    builder.add(members, np.full(len(members), hub), TOPOLOGY)
    edges, edge_inputs = builder.both_ways()
    return GraphEncoding(
        _servers(shards, shape, figures),
        _buckets(weights, shards, figures),
        _links(shape, figures) if topology else np.zeros((0, len(LINK_INPUTS))),
        switches,
        edges,
        edge_inputs,
    )


class _Edges:
    """Edges of one direction, collected kind by kind."""

    def __init__(self) -> None:
        self._pairs: list[IndexArray] = []
        self._inputs: list[FloatArray] = []

    def add(
        self, sources: IndexArray, targets: IndexArray, kind: int, inputs: dict[int, FloatArray] | None = None
    ) -> None:
        table = np.zeros((len(sources), len(EDGE_INPUTS)))
        table[:, kind] = 1.0
        for column, values in (inputs or {}).items():
            table[:, column] = values
        self._pairs.append(np.stack([sources, targets]))
        self._inputs.append(table)

    def both_ways(self) -> tuple[IndexArray, FloatArray]:
        pairs, inputs = np.concatenate(self._pairs, axis=1), np.concatenate(self._inputs)
        back = inputs.copy()
        back[:, BACK] = 1.0
        return np.concatenate([pairs, pairs[::-1]], axis=1), np.concatenate([inputs, back])


def _add_shards(builder: _Edges, shards: ShardColumns, server_at: int, bucket_at: int) -> None:
    variable_bytes = np.bincount(shards.variable, shards.gradient_bytes)
    share = shards.gradient_bytes / variable_bytes[shards.variable]
    for number, at, kind in ((shards.server, server_at, PLACEMENT), (shards.bucket, bucket_at, MEMBERSHIP)):
        chosen = number >= 0
        inputs = {SHARE: share[chosen], CODED: shards.log_coded_ratio[chosen], COPIES: shards.way[chosen] == 1}
        builder.add(shards.variable[chosen], at + number[chosen], kind, inputs)


def _servers(shards: ShardColumns, shape: ClusterShape, figures: StepFigures | None) -> FloatArray:
    table, node, on_server = np.zeros((shape.servers, len(SERVER_INPUTS))), shape.node_of_server, shards.server >= 0
    held = np.bincount(shards.server[on_server], shards.gradient_bytes[on_server], shape.servers)
    table[:, 0] = np.log1p(held * shape.servers / shards.gradient_bytes.sum())
    table[:, 1], table[:, 2], table[:, 3] = shape.replicas_share[node], shape.log_rate[node], shape.log_cores[node]
    if figures is not None:
        table[:, 4] = figures.utilization[shape.resources.servers]
        table[:, 5] = figures.utilization[shape.resources.nodes][node]
    return table


def _buckets(weights: VariableWeights, shards: ShardColumns, figures: StepFigures | None) -> FloatArray:
    table, chosen = np.zeros((shards.buckets, len(BUCKET_INPUTS))), shards.bucket >= 0
    bucket, variable = shards.bucket[chosen], shards.variable[chosen]
    count = shards.buckets
    table[:, 0] = np.bincount(bucket, shards.gradient_bytes[chosen], count) / shards.gradient_bytes.sum()
    table[:, 1] = np.log(np.maximum(np.bincount(bucket, minlength=count), 1))
    np.maximum.at(table[:, 2], bucket, weights.ready[variable])
    table[bucket, 3 + shards.way[chosen] - 2] = 1.0
    if figures is not None:
        np.maximum.at(table[:, -1], bucket, figures.variables.arrived[variable] / figures.step_seconds)
    return table


def _links(shape: ClusterShape, figures: StepFigures | None) -> FloatArray:
    cluster = shape.resources.cluster
    table, nodes = np.zeros((len(cluster.links), len(LINK_INPUTS))), {node.name for node in cluster.nodes}
    rates = np.log(shape.resources.bytes_per_second)
    loopback = np.array([link.source == link.target for link in cluster.links])
    network = rates[~loopback] if (~loopback).any() else rates
    table[:, 0], table[:, 1] = rates - network.mean(), loopback
    table[:, 2] = [link.source not in nodes and link.target not in nodes for link in cluster.links]
    if figures is not None:
        table[:, 3] = figures.utilization[shape.resources.links]
    return table

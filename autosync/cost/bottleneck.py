"""The resource that a predicted step waits for longest, and the variables whose traffic and work keep it busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.breakdown import Breakdown, breakdown
from autosync.cost.coefficients import Coefficients
from autosync.cost.step_time import link_seconds, node_seconds, server_seconds
from autosync.cost.tables import CostTables, cost_tables
from autosync.layout.channels import Channel
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, Synchronizer

__all__ = ["Bottleneck", "bottleneck"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bottleneck:
    """A link's direction, a node's cores or a server, busy for `seconds` of a step beside computing.

    `kind` is link, node or server; `name` reads like `node0 > switch`, `node0` or `node0/cpu:0`. `shares` says which
    share of its time each variable takes, bucketed or not; those that take none are left out. `servers` are the
    server devices that load it.
    """

    kind: str
    name: str
    seconds: float
    shares: Mapping[str, float]
    servers: frozenset[str]


def bottleneck(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: Coefficients) -> Bottleneck:
    """The busiest of all links, nodes and servers under the closed form.

    Gradients count as they are: a compressor changes little about which variable weighs most. Raises `SpecError` when
    the strategy does not fit the model and the cluster.
    """
    kind, number, seconds = _busiest(breakdown(model, cluster, strategy, coefficients))
    tables = cost_tables(model, cluster, strategy.replicas)
    weights: dict[str, float] = {}
    servers: set[str] = set()
    known: dict[Channel, FloatArray] = {}
    for variable, shard, quantities in _shards(tables, strategy):
        channel = _channel(shard, tables.variables[variable].variable.sparse)
        if channel not in known:
            known[channel] = _seconds_a_unit(tables, channel, coefficients)[kind][:, number]
        weight = float(np.array(quantities) @ known[channel])
        if weight > 0:
            weights[variable] = weights.get(variable, 0.0) + weight
            servers |= set() if isinstance(shard, AllReduce) else {shard.device}
    total = sum(weights.values()) or 1.0
    shares = {variable: weight / total for variable, weight in weights.items()}
    return Bottleneck(kind, _name(cluster, kind, number), seconds, shares, frozenset(servers))


def _busiest(parts: Breakdown) -> tuple[str, int, float]:
    busy = {"link": parts.links, "node": parts.nodes, "server": parts.servers}
    kind = max(busy, key=lambda each: float(busy[each].max()))
    return kind, int(busy[kind].argmax()), float(busy[kind].max())


def _name(cluster: ClusterSpec, kind: str, number: int) -> str:
    if kind == "link":
        link = cluster.links[number]
        return f"{link.source} > {link.target}"
    return cluster.nodes[number].name if kind == "node" else str(cluster.server_devices[number])


def _shards(tables: CostTables, strategy: Strategy) -> Iterator[tuple[str, Synchronizer, tuple[float, ...]]]:
    for each in strategy.variables:
        for shard, quantities in zip(each.shards, tables.variables[each.variable].shards(each.partition), strict=True):
            yield each.variable, shard, quantities


def _channel(shard: Synchronizer, sparse: bool) -> Channel:
    if not isinstance(shard, AllReduce):
        return ("sparse_server", shard.device, False) if sparse else ("dense_server", shard.device, shard.local_copy)
    return ("gathered_rows" if sparse else shard.algorithm), "", False


def _seconds_a_unit(tables: CostTables, channel: Channel, coefficients: Coefficients) -> dict[str, FloatArray]:
    """Seconds that one of each quantity takes, float64 (quantities, resources), for every kind of resource."""
    projected = tables.projected(channel)
    loads = projected.pull + projected.push + projected.back
    return {
        "link": link_seconds(loads, tables),
        "node": node_seconds(loads, tables, coefficients),
        "server": server_seconds(loads, tables, coefficients),
    }

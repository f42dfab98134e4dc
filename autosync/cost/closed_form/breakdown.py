"""The breakdown of one strategy's step: busy seconds of each link, node and server, bottleneck, and traffic."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.closed_form.loads import loads_by_replicas
from autosync.cost.closed_form.step_time import (
    StepTerms,
    gpu_compute_seconds,
    link_seconds,
    node_compute_seconds,
    node_seconds,
    resource_seconds,
    server_seconds,
    step_seconds,
    step_terms,
)
from autosync.cost.closed_form.tables import cost_tables
from autosync.cost.coefficients import Coefficients
from autosync.layout.apart import apart, table_of
from autosync.layout.channels import Channel
from autosync.layout.fusion import Layout
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, Strategy


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Seconds of one step, pulling and pushing together, all float64. Arrays are in the cluster's order."""

    step: float

    overhead: float

    latency: float
    """Latency of the longest chain of messages."""

    chain: float
    """The longest time of a bucket's payload, stage by stage."""

    gpu_compute: float
    """Computation of a GPU replica."""

    paced: float
    """Duration of paced passes."""

    links: npt.NDArray[np.float64]
    """Busy seconds of each link, (links,)."""

    nodes: npt.NDArray[np.float64]
    """Busy seconds of each node's cores without computation, (nodes,)."""

    servers: npt.NDArray[np.float64]
    """Busy seconds of each server device, (server devices,)."""

    compute: npt.NDArray[np.float64]
    """Computation on each node's cores, (nodes,)."""


def breakdown(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: Coefficients) -> Breakdown:
    """The breakdown of one strategy's step. Raises `SpecError` if it does not fit the model and the cluster."""
    _, _, loads = next(loads_by_replicas(model, cluster, [strategy]))
    terms: StepTerms = step_terms(loads, coefficients)
    total = loads.total(slice(None))
    return Breakdown(
        step=float(step_seconds(loads, coefficients)[0]),
        overhead=coefficients.step_overhead_seconds,
        latency=float(terms.latency[0]),
        chain=float(terms.chain[0]),
        gpu_compute=gpu_compute_seconds(loads.tables, coefficients),
        paced=loads.tables.paced_seconds,
        links=link_seconds(total, loads.tables)[0],
        nodes=node_seconds(total, loads.tables, coefficients)[0],
        servers=server_seconds(total, loads.tables, coefficients)[0],
        compute=3 * node_compute_seconds(loads.tables, coefficients),
    )


@dataclass(frozen=True)
class Bottleneck:
    """The busiest link direction, node or server of a step."""

    kind: str
    """link, node or server."""

    name: str
    """For example `node0 > switch`, `node0` or `node0/cpu:0`."""

    seconds: float
    """Busy seconds of a step, without computation."""

    shares: Mapping[str, float]
    """The share of these seconds for each variable, bucketed or not; variables without a share are left out."""

    servers: frozenset[str]
    """The server devices that load the resource."""


def bottleneck(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: Coefficients) -> Bottleneck:
    """The busiest link, node or server under the closed form.

    Gradients count without compression, because a compressor rarely changes which variable weighs most. Raises
    `SpecError` if the strategy does not fit the model and the cluster.
    """
    kind, number, seconds = _busiest(breakdown(model, cluster, strategy, coefficients))
    model, strategy = apart(model, strategy)
    tables = cost_tables(model, cluster, strategy.replicas)
    weights: dict[str, float] = {}
    servers: set[str] = set()
    known: dict[Channel, FloatArray] = {}
    seconds_of_loads: dict[int, FloatArray] = {}
    resource = number + dict(zip(("link", "node", "server"), tables.columns.resources, strict=True))[kind].start
    for shard in Layout.from_decisions(tables.slices, strategy.variables).shards:
        channel = shard.channel
        if channel not in known:
            exchange = tables.exchange_loads(channel)
            loads = id(exchange.push)  # channels of interchangeable servers share this array
            if loads not in seconds_of_loads:
                total = exchange.pull + exchange.push + exchange.back
                seconds_of_loads[loads] = resource_seconds(total, tables, coefficients)
            known[channel] = seconds_of_loads[loads][:, exchange.of_resource(resource, tables.alike)]
        weight = float(np.array(shard.slice.weighs) @ known[channel])
        if weight > 0:
            name = table_of(shard.variable.name)
            weights[name] = weights.get(name, 0.0) + weight
            servers |= {channel[1]} - {""}
    weight_sum = sum(weights.values()) or 1.0
    shares = {variable: weight / weight_sum for variable, weight in weights.items()}
    return Bottleneck(kind, _name(cluster, kind, number), seconds, shares, frozenset(servers))


def _busiest(parts: Breakdown) -> tuple[str, int, float]:
    busy = {"link": parts.links, "node": parts.nodes, "server": parts.servers}
    kind = max(busy, key=lambda kind: float(busy[kind].max()))
    return kind, int(busy[kind].argmax()), float(busy[kind].max())


def _name(cluster: ClusterSpec, kind: str, number: int) -> str:
    if kind == "link":
        link = cluster.links[number]
        return f"{link.source} > {link.target}"
    return cluster.nodes[number].name if kind == "node" else str(cluster.server_devices[number])


@dataclass(frozen=True, eq=False)
class Traffic:
    """The traffic of one step, all float64, in the order of `cluster.links` and `cluster.server_devices`."""

    bytes: npt.NDArray[np.float64]
    """Bytes over each link, (links,)."""

    messages: npt.NDArray[np.float64]
    """Messages over each link, (links,)."""

    reduced_bytes: npt.NDArray[np.float64]
    """Bytes of gradients that each server reads to add them, (servers,)."""

    updated_bytes: npt.NDArray[np.float64]
    """Bytes of values and slots that each server writes, (servers,)."""


def traffic(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Traffic:
    """The traffic of one step. Raises `SpecError` if the strategy does not fit the model and the cluster."""
    _, _, loads = next(loads_by_replicas(model, cluster, [strategy]))
    at = loads.tables.columns
    return Traffic(
        loads.total(at.link_bytes)[0],
        loads.total(at.link_messages)[0],
        loads.total(at.server_reduced_bytes)[0],
        loads.total(at.server_updated_bytes)[0],
    )

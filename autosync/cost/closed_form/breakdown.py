"""One strategy's step taken apart: how long each link, node and server is busy, and for how long in all."""

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
from autosync.layout.channels import Channel
from autosync.layout.together import Layout
from autosync.spec import ClusterSpec, ModelSpec, Strategy


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Seconds of one step, pulling and pushing together, all float64.

    `links` (links,) and `servers` (server devices,) are in the cluster's order; `nodes` (nodes,) is what each node's
    cores have to do beside computing, which is `compute` (nodes,); `gpu_compute` is a GPU replica's, `paced` a paced
    pass. `latency` is that of the longest chain of messages, `chain` the longest a bucket's payload takes stage by
    stage.
    """

    step: float
    overhead: float
    latency: float
    chain: float
    gpu_compute: float
    paced: float
    links: npt.NDArray[np.float64]
    nodes: npt.NDArray[np.float64]
    servers: npt.NDArray[np.float64]
    compute: npt.NDArray[np.float64]


def breakdown(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: Coefficients) -> Breakdown:
    """Take one strategy's step apart. Raises `SpecError` when it does not fit the model and the cluster."""
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
    costed: dict[int, FloatArray] = {}
    resource = number + dict(zip(("link", "node", "server"), tables.columns.resources, strict=True))[kind].start
    for shard in Layout.made(tables.slices, strategy.variables).shards:
        channel = shard.channel
        if channel not in known:
            projected = tables.projected(channel)
            loads = id(projected.push)  # which channels that are alike have in common
            if loads not in costed:
                every = projected.pull + projected.push + projected.back
                costed[loads] = resource_seconds(every, tables, coefficients)
            known[channel] = costed[loads][:, projected.of_resource(resource, tables.alike)]
        weight = float(np.array(shard.slice.weighs) @ known[channel])
        if weight > 0:
            weights[shard.variable.name] = weights.get(shard.variable.name, 0.0) + weight
            servers |= {channel[1]} - {""}
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


@dataclass(frozen=True, eq=False)
class Traffic:
    """One step's traffic, all float64.

    `bytes` and `messages` (links,) are aligned with `cluster.links`. `reduced_bytes`, the gradients each server reads
    to add them, and `updated_bytes`, the values and slots it writes, are (servers,), with `cluster.server_devices`.
    """

    bytes: npt.NDArray[np.float64]
    messages: npt.NDArray[np.float64]
    reduced_bytes: npt.NDArray[np.float64]
    updated_bytes: npt.NDArray[np.float64]


def traffic(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Traffic:
    """The traffic of one step. Raises `SpecError` when the strategy does not fit the model and the cluster."""
    _, _, loads = next(loads_by_replicas(model, cluster, [strategy]))
    at = loads.tables.columns
    return Traffic(
        loads.total(at.link_bytes)[0],
        loads.total(at.link_messages)[0],
        loads.total(at.server_reduced_bytes)[0],
        loads.total(at.server_updated_bytes)[0],
    )

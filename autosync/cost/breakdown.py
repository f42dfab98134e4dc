"""One strategy's step taken apart: how long each link, node and server is busy, and for how long in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import Coefficients
from autosync.cost.loads import loads_by_replicas
from autosync.cost.step_time import (
    StepTerms,
    link_seconds,
    node_compute_seconds,
    node_seconds,
    server_seconds,
    step_seconds,
    step_terms,
)
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["Breakdown", "breakdown"]


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Seconds of one step, pulling and pushing together, all float64.

    `links` (links,) and `servers` (server devices,) are in the cluster's order; `nodes` (nodes,) is what each node's
    cores have to do beside computing, which is `compute` (nodes,); `gpu_compute` is a GPU replica's. `latency` is that
    of the longest chain of messages, `chain` the longest a bucket's payload takes stage by stage.
    """

    step: float
    overhead: float
    latency: float
    chain: float
    gpu_compute: float
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
        gpu_compute=3 * loads.tables.gpu_flops * coefficients.gpu_seconds_per_flop,
        links=link_seconds(total, loads.tables)[0],
        nodes=node_seconds(total, loads.tables, coefficients)[0],
        servers=server_seconds(total, loads.tables, coefficients)[0],
        compute=3 * node_compute_seconds(loads.tables, coefficients),
    )

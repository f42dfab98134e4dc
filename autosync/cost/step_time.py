"""The closed form of one step's seconds.

Notation: F forward seconds, B = 2 F backward seconds; for a resource (a link, a node's cores, a server) P its seconds
of pulling, W(p) its seconds of pushing what becomes ready at fraction p of the backward pass or later.

    overlapped = max P + F + max(B, max over resources and p of (p B + W(p)))
    serial     = sum over kinds of resource of max (P + W(0)) + F + B
    step       = overhead + latency + overlap * overlapped + (1 - overlap) * serial

p B + W(p) is when a resource that always has something to do ends, if it starts with what was ready at p. A node's
cores also compute, for the replicas that run on them, so their W is at least added to those replicas' own B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import Coefficients
from autosync.cost.loads import Loads
from autosync.cost.tables import PHASES, CostTables

__all__ = ["StepTerms", "step_seconds", "step_terms"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepTerms:
    """What n steps consist of, in seconds, float64 (n,): `step_seconds` is made of them.

    Links, nodes' cores and servers are given for the one that takes longest, pull and push apart.
    """

    compute: float
    latency: FloatArray
    link_pull: FloatArray
    link_push: FloatArray
    node_pull: FloatArray
    node_push: FloatArray
    server_push: FloatArray
    overlapped: FloatArray
    serial: FloatArray


def step_seconds(loads: Loads, coefficients: Coefficients) -> FloatArray:
    """Seconds of one step, float64 (n,), positive."""
    terms = step_terms(loads, coefficients)
    mixed = coefficients.overlap * terms.overlapped + (1 - coefficients.overlap) * terms.serial
    return np.maximum(coefficients.step_overhead_seconds + terms.latency + mixed, 1e-9)


def step_terms(loads: Loads, coefficients: Coefficients) -> StepTerms:
    tables, at = loads.tables, loads.tables.columns
    node_forward, forward = _forward_seconds(tables, coefficients)
    backward = 2 * forward
    ready = np.linspace(0.0, backward, PHASES)[:, None]
    seconds_a_byte = np.array([1 / link.bytes_per_second for link in tables.cluster.links])
    link_pull = (loads.pull[:, at.link_bytes] * seconds_a_byte).max(axis=1)
    link_push = loads.pushed(at.link_bytes) * seconds_a_byte
    node_pull = _node_seconds(loads.pull[:, None], tables, coefficients)[:, 0].max(axis=1)
    node_push = _node_seconds(loads.push, tables, coefficients)
    server_bytes = loads.pushed(at.server_reduced_bytes) + loads.pushed(at.server_updated_bytes)
    # A server keeps one core busy at most: each sum and update is one op on one array.
    server_push = server_bytes * coefficients.core_seconds_per_reduced_byte
    ends = [_end(link_push, ready), _end(node_push, ready), _end(server_push, ready)]
    ends.append((node_push[:, 0] + 2 * node_forward).max(axis=1))
    overlapped = np.maximum(link_pull, node_pull) + forward + np.maximum(backward, np.max(ends, axis=0))
    pushed = [each[:, 0].max(axis=1) for each in (link_push, node_push, server_push)]
    serial = link_pull + node_pull + forward + backward + pushed[0] + np.maximum(pushed[1], pushed[2])
    return StepTerms(
        3 * forward, loads.latency_seconds, link_pull, pushed[0], node_pull, pushed[1], pushed[2], overlapped, serial
    )


def _forward_seconds(tables: CostTables, coefficients: Coefficients) -> tuple[FloatArray, float]:
    """Forward seconds on each node's cores (nodes,), and of the slowest replica."""
    on_cores = tables.node_compute * coefficients.core_seconds_per_flop
    return on_cores, max(float(on_cores.max()), tables.gpu_flops * coefficients.gpu_seconds_per_flop)


def _node_seconds(loads: FloatArray, tables: CostTables, coefficients: Coefficients) -> FloatArray:
    """Seconds all of a node's cores need for messages, bytes and work; `loads` (n, k, columns) -> (n, k, nodes)."""
    at = tables.columns
    core_seconds: FloatArray = (
        loads[:, :, at.node_messages] * coefficients.core_seconds_per_message
        + loads[:, :, at.node_bytes] * coefficients.core_seconds_per_byte
        + loads[:, :, at.node_work_bytes] * coefficients.core_seconds_per_reduced_byte
    )
    return np.asarray(core_seconds / tables.node_cores)


def _end(pushed: FloatArray, ready: FloatArray) -> FloatArray:
    """When the last resource ends, counted from the backward pass' start; `pushed` (n, PHASES, resources) -> (n,)."""
    ends = np.where(pushed > 0, pushed + ready, 0.0)
    return np.asarray(ends.max(axis=(1, 2)))

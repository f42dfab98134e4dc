"""The closed form of one step's seconds.

Notation: F forward seconds, B = 2 F backward seconds. For a resource (a link's direction, a node's cores, a server): P
seconds of pulling rows before the forward pass; W(p) seconds of pushing the gradients that become ready at fraction p
of the backward pass or later; V(p) seconds of sending back the values updated with these gradients.

    overlapped = max P + F + max(B, max over resources and p of (p B + W(p) + V(p)))
    serial     = sum over kinds of resource of (max P + max W(0) + max V(0)) + F + B
    step       = overhead + latency + overlap * overlapped + (1 - overlap) * serial

Gradients arrive at a server by one direction of its link while values leave by the other. Without overlap, all values
wait for the last gradient. p B + W(p) + V(p) is the end of a resource that is always busy and starts with the gradients
ready at p. A node's cores also compute the passes of the replicas on them, so their W is added to at least those
replicas' B. A bucket whose messages wait for each other (for example, up and down a tree) does not keep a link busy all
the time. Its chain C(p) counts like a resource's W(p), and in the serial sum a link's W(0) is at least the longest
chain.

If gradients also travel during the next forward pass, reads are assumed to mirror ready times: the values of gradients
ready at p or later are read up to (1 - p) F, which is F + B - p (F + B) after these gradients are ready. Then

    overlapped = max P + max(F + B, max over resources and p of (p (F + B) + W(p) + V(p)))
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from autosync.cost.closed_form.loads import ColumnLoads
from autosync.cost.closed_form.matrices import BACK, PUSH, WAYS
from autosync.cost.closed_form.tables import PHASES, CostTables
from autosync.cost.coefficients import Coefficients
from autosync.numeric import FloatArray


@dataclass(frozen=True, eq=False)
class StepTerms:
    """The terms of n steps, in seconds, float64 (n,); `step_seconds` combines them.

    Terms of links, nodes' cores and servers are those of the busiest one. Pull includes values that are sent back.
    """

    compute: float
    """Forward and backward pass of the slowest replica."""

    latency: FloatArray
    link_pull: FloatArray
    link_push: FloatArray
    node_pull: FloatArray
    node_push: FloatArray
    server_push: FloatArray

    chain: FloatArray
    """The longest chain of a bucket or compressed shard."""

    overlapped: FloatArray
    """The step without overhead and latency, with complete overlap."""

    serial: FloatArray
    """The step without overhead and latency, without overlap."""


def step_seconds(loads: ColumnLoads, coefficients: Coefficients) -> FloatArray:
    """Seconds of one step, float64 (n,), positive."""
    terms = step_terms(loads, coefficients)
    mixed = coefficients.overlap * terms.overlapped + (1 - coefficients.overlap) * terms.serial
    return np.maximum(coefficients.step_overhead_seconds + terms.latency + mixed, 1e-9)


def step_terms(loads: ColumnLoads, coefficients: Coefficients) -> StepTerms:
    tables = loads.tables
    node_forward = node_compute_seconds(tables, coefficients)
    delay = max(gpu_compute_seconds(tables, coefficients), tables.paced_seconds) / 3
    forward = max(float(node_forward.max()), delay)
    backward = 2 * forward
    ready = np.linspace(0.0, backward, PHASES)[:, None]
    links, nodes, servers = tables.columns.resources
    convert, times = partial(resource_seconds, tables=tables, coefficients=coefficients), loads.matrices.times
    pulled, pushed, sent_back = (times(loads.by_phase[0], (way,), convert) for way in WAYS)
    busy = times(loads.by_phase, (PUSH, BACK), convert).max(axis=2)
    busiest = np.maximum(busy, loads.chain_seconds.T)
    end = np.where(busiest > 0, busiest + ready, 0.0).max(axis=0)
    computed = (pushed[:, nodes] + sent_back[:, nodes] + 2 * node_forward).max(axis=1)
    last = np.maximum(np.maximum(end, computed), backward)
    before_link, before_node = pulled[:, links].max(axis=1), pulled[:, nodes].max(axis=1)
    overlapped = np.maximum(before_link, before_node) + forward + last
    free = np.where(busiest > 0, busiest + 1.5 * ready, 0.0).max(
        axis=0
    )  # the whole pass is 1.5 times the backward pass
    free = np.maximum(np.maximum(free, computed + forward), forward + backward) + np.maximum(before_link, before_node)
    overlapped = np.where(loads.overlaps, free, overlapped)
    link_pull, node_pull = before_link + sent_back[:, links].max(axis=1), before_node + sent_back[:, nodes].max(axis=1)
    link, node, server = (pushed[:, columns].max(axis=1) for columns in (links, nodes, servers))
    longest = loads.chain_seconds.max(axis=1)
    serial = link_pull + node_pull + forward + backward + np.maximum(link, longest) + np.maximum(node, server)
    return StepTerms(
        3 * forward, loads.latency_seconds, link_pull, link, node_pull, node, server, longest, overlapped, serial
    )


def gpu_compute_seconds(tables: CostTables, coefficients: Coefficients) -> float:
    """Seconds of both passes on a GPU; 0 if no replica is on a GPU."""
    return 3 * tables.gpu_flops * coefficients.gpu_seconds_per_flop + tables.gpu_seconds


def node_compute_seconds(tables: CostTables, coefficients: Coefficients) -> FloatArray:
    """Forward seconds on each node's cores (nodes,)."""
    return tables.node_compute * coefficients.core_seconds_per_flop


def link_seconds(loads: FloatArray, tables: CostTables) -> FloatArray:
    """Seconds that each link is busy; `loads` (..., columns) -> (..., links)."""
    seconds_a_byte = np.array([1 / link.bytes_per_second for link in tables.cluster.links])
    return np.asarray(loads[..., tables.columns.link_bytes] * seconds_a_byte)


def node_seconds(loads: FloatArray, tables: CostTables, coefficients: Coefficients) -> FloatArray:
    """Seconds that all cores of a node need for messages, bytes and work; `loads` (..., columns) -> (..., nodes)."""
    at = tables.columns
    core_seconds: FloatArray = (
        loads[..., at.node_messages] * coefficients.core_seconds_per_message
        + loads[..., at.node_bytes] * coefficients.core_seconds_per_byte
        + loads[..., at.node_work_bytes] * coefficients.core_seconds_per_reduced_byte
    )
    return np.asarray(core_seconds / tables.node_cores)


def server_seconds(loads: FloatArray, tables: CostTables, coefficients: Coefficients) -> FloatArray:
    """Seconds that each server adds and updates; `loads` (..., columns) -> (..., servers).

    A server keeps at most one core busy, because every sum and update is one op on one array.
    """
    at = tables.columns
    worked_bytes = loads[..., at.server_reduced_bytes] + loads[..., at.server_updated_bytes]
    return np.asarray(worked_bytes * coefficients.core_seconds_per_reduced_byte)


def resource_seconds(loads: FloatArray, tables: CostTables, coefficients: Coefficients) -> FloatArray:
    """Seconds that each resource is busy; `loads` (..., columns) -> (..., links + nodes + servers)."""
    parts = (
        link_seconds(loads, tables),
        node_seconds(loads, tables, coefficients),
        server_seconds(loads, tables, coefficients),
    )
    return np.concatenate(parts, axis=-1)

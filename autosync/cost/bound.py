"""What no exact strategy can go below: a step's time by the bytes that must cross, and by what must be computed.

Notation: n nodes with replicas; M bytes that a node's own gradients come to, at least; C(S) the bytes a second that can
leave a set of nodes S; F and B core-seconds of a replica's passes.

To add up n gradients and make the sum known to n nodes takes 2 n - 2 messages, even if sums are sent on (one-way
gossiping: Harary and Schwenk 1974), so all nodes together send at least (2 n - 2) M; and out of, and into, a set of
nodes that holds some replicas and not all of them M must go. So

    step >= (2 n - 2) M / sum of C({node}),   the same of what can come in
    step >= M / C(S) for every node and every side of a link that alone joins two parts, the same into it
    step >= sum of (F + B) over the replicas on one machine's cores / these cores

A dense variable counts with its bytes, or those of its factors if it has such and they are fewer; a sparse one with the
rows that a replica touches, which is what must cross on average where batches are drawn at random, wherever rows are
kept. Nothing is taken for latency, protocol, copies and the optimizer, so no strategy comes all the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosync.spec import ClusterSpec, Link, ModelSpec, Variable
from autosync.spec.model import DTYPE_BYTES

__all__ = ["StepBound", "step_bound"]


@dataclass(frozen=True)
class StepBound:
    """Seconds that a step takes at least, as far as the cluster's figures are right, and what takes them."""

    seconds: float
    reason: str


def step_bound(model: ModelSpec, cluster: ClusterSpec) -> StepBound:
    """The greatest of the bounds; 0 seconds where nothing crosses and nothing is known of computing."""
    bounds = [StepBound(0.0, "nothing"), *_by_links(model, cluster), *_by_cores(model, cluster)]
    return max(bounds, key=lambda bound: bound.seconds)


def _by_links(model: ModelSpec, cluster: ClusterSpec) -> Iterator[StepBound]:
    replicas = Counter(device.node for device in cluster.replica_devices)
    if len(replicas) < 2:
        return
    size = sum(_least_bytes(variable) for variable in model.variables)
    links = [link for link in cluster.links if link.source != link.target]
    leaving, coming = ({node.name: 0.0 for node in cluster.nodes} for _ in range(2))
    for link in links:
        if link.source in leaving:
            leaving[link.source] += link.bytes_per_second
        if link.target in coming:
            coming[link.target] += link.bytes_per_second
    everything = (2 * len(replicas) - 2) * size
    for rates, way in ((leaving, "out of"), (coming, "into")):
        yield StepBound(everything / sum(rates.values()), f"the links {way} all nodes together")
        for node in replicas:
            yield StepBound(size / rates[node], f"the links {way} {node}")
    for link in links:
        beyond = _reached(link.target, [each for each in links if {each.source, each.target} != _ends(link)])
        inside = sum(count for node, count in replicas.items() if node in beyond)
        if link.source not in beyond and 0 < inside < replicas.total():
            yield StepBound(size / link.bytes_per_second, f"link {link.source} > {link.target}")


def _by_cores(model: ModelSpec, cluster: ClusterSpec) -> Iterator[StepBound]:
    """Of replicas that compute on cores, where the model was profiled; several nodes may share one machine's."""
    if model.profile is None:
        return
    passes = model.profile.forward_seconds + model.profile.backward_seconds
    at_work: Counter[tuple[str, float]] = Counter()
    for device in cluster.replica_devices:
        node = cluster.node(device.node)
        shared = node.shared_cores
        if device.kind == "cpu":
            at_work[(shared.machine, shared.count) if shared else (node.name, node.cores)] += 1
    for (where, cores), count in at_work.items():
        yield StepBound(count * passes / cores, f"computing on the {cores:g} cores of {where}")


def _least_bytes(variable: Variable) -> float:
    """That a node has to send of its own gradient of the variable."""
    element = DTYPE_BYTES[variable.dtype]
    if variable.rows_per_step is not None:
        return min(variable.bytes, variable.rows_per_step * variable.row_elements * element)
    if variable.factor_rows is not None:
        return min(variable.bytes, variable.factor_rows * sum(variable.shape) * element)
    return variable.bytes


def _ends(link: Link) -> set[str]:
    return {link.source, link.target}


def _reached(start: str, links: Sequence[Link]) -> set[str]:
    """What can be reached from `start`, itself included."""
    reached, ahead = {start}, [start]
    while ahead:
        here = ahead.pop()
        fresh = {link.target for link in links if link.source == here} - reached
        reached |= fresh
        ahead += fresh
    return reached

"""Lower bounds on the step time of exact strategies: by the bytes that must cross links, and by computation.

Notation: n nodes with replicas; M(k) the minimum bytes of the sum of k replicas' gradients; C(S) the bytes a second
that can leave a set of nodes S; F and B core-seconds of a replica's passes.

Adding n gradients element by element and distributing the sum to n nodes takes 2 n - 2 messages of M(1) each, even if
sums are forwarded (one-way gossiping: Harary and Schwenk 1974). If a set of nodes holds some replicas but not all, the
sum of its replicas must leave the set, and the sum of the other replicas must enter it. So

    step >= (2 n - 2) M(1) / sum of C({node}),   the same for the incoming rates
    step >= sum over the nodes of M(replicas elsewhere) / sum of C({node}),   the same for the incoming rates
    step >= M(replicas within) / C(S) for every node, and every side of a link that alone joins two parts
    step >= M(replicas elsewhere) / incoming rate of S, the same
    step >= sum of (F + B) over the replicas on one machine's cores / these cores

Gradients of paced passes are released at known times of the pass and cross no link before. The gradients released at T
or later, where T counts from the start of the fastest pass, take T and then as long as the links take for them alone.

Without a barrier after each step, steps are a periodic schedule. Its cycles go from the read of a variable, n after the
start of the pass, to its gradient, released at r, to its sum, to the next read. So, for all r and n,

    step >= r - n + the links' time for the variables released at r or later and read at n or earlier

With a barrier all values are there before the pass, so n is 0. On one link without latency the bound can be met: jobs
with release r and deadline step + n fit if each interval is long enough for the jobs within it, because serving the
earliest deadline first is optimal (Jackson 1955).

The bounds also hold for parts of a cluster, if each part counts as one node. For example, G parts attached to a switch,
whether racks or nodes, together have to send 2 G - 2 sums out.

In the first two bounds, each variable counts with the larger. A dense variable counts with its bytes. If gradients have
b rows of factors, the sum of k gradients generally has rank r = min(k b, the variable's sides). It then takes r times
(the sum of the sides minus r) numbers, the dimension of the matrices of rank r. If this is less than the number of
elements, the sum is not an elementwise sum, and the first bound does not hold. The bounds ignore latency, protocols,
copies and the optimizer, so no strategy reaches them exactly.

A sparse variable counts with U(k), the distinct rows that k replicas touch together in a step, on average. Let q be the
probability that one replica touches a row, Q = 1 - (1 - q)^k for k replicas, and a and b the replicas on the two sides
of a cut. If the row is kept on the side of a, the values that the other side reads leave that side and its gradients
enter it, each with probability Q(b); if both sides have copies, gradients cross with Q(a) one way and Q(b) the other.
So at least U(min(a, b)) rows cross each way. Similarly, parts with h(1), h(2), ... replicas have to send at least
2 (the sum of U(h) minus the largest U(h)) rows out, because one part keeps the row. This holds under three assumptions:
replicas draw their batches independently from one distribution, rows stay at their location, for any location, and
every step moves its own sums and values.

If all replicas keep copies of the table instead (`Variable.copied`), the sum of a row must reach all of m parts. If t
parts touch the row, some part has the whole sum after t - 1 messages at the earliest, and each other part needs another
message. So all parts together send at least m + t - 2 messages per row, on average (m - 2) U(all) + (the sum of U(h))
rows, and the link out of one part with h replicas carries U(h).

The model has U(1) and may have U(2). Weighted by q, (1 - (1 - q)^k) / q is convex, so with s = 2 - U(2) / U(1), the
mean of q over touched rows, U(k) >= U(1) (1 - (1 - s)^k) / s (Jensen), with equality for k = 1, k = 2 and rows of equal
probability. Without U(2), replicas may all touch the same rows (s = 1), so only U(1) is certain.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosync.cost.capacity import draw_passes, nodes_by_machine, replicas_on_cores
from autosync.layout.apart import splits_of
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.topology import Topology
from autosync.spec import DTYPE_BYTES, ClusterSpec, Link, ModelSpec, Variable


@dataclass(frozen=True)
class StepBound:
    """The minimum seconds of a step, given correct figures of the cluster, and the limiting resource (`reason`)."""

    seconds: float
    reason: str

    def gap_closed(self, baseline_seconds: float, speedup: float) -> float | None:
        """The share of the gap between a baseline's step and this bound that a `speedup` closes; negative if slower.

        None if the baseline is at the bound or the bound is 0, because then there is no gap.
        """
        gap = baseline_seconds - self.seconds
        return None if gap <= 0 or self.seconds <= 0 else (baseline_seconds - baseline_seconds / speedup) / gap


def step_bound(model: ModelSpec, cluster: ClusterSpec, overlaps: bool = False) -> StepBound:
    """The greatest bound; 0 seconds if no bytes cross links and the cost of computing is unknown.

    Strategies may send the looked-up rows of tied tables apart, so the least bound of all ways to do so counts.

    With `overlaps`, the bound of a step without a barrier, whose values may travel during the next forward pass; it is
    at most the bound of a step with one. A link whose rate changes counts with its greatest rate, so that the bound
    holds at any time.
    """
    cluster = _at_greatest_rates(cluster)
    of_splits = [
        max(
            [StepBound(0.0, "nothing"), *_by_links(split, cluster, overlaps), *_by_cores(split, cluster)],
            key=lambda bound: bound.seconds,
        )
        for split in splits_of(model)
    ]
    return min(of_splits, key=lambda bound: bound.seconds)


def all_reduce_bound_seconds(cluster: ClusterSpec, replicas: Sequence[str], size: float) -> float | None:
    """The minimum seconds to sum `size` bytes of each replica and distribute the sum, by the links between nodes.

    The bound is the time of the best packing of trees whose links never wait (`autosync.layout.fitting.packing`). Roots
    may be any nodes, so the bound also covers parameter servers. In all tries (a hundred trees of switches) it equaled
    the greatest of the link bounds above. None for more than 16 nodes.
    """
    byte_seconds = trees_bound(Topology(cluster, tuple(replicas)))
    return None if byte_seconds is None else byte_seconds * size


def _at_greatest_rates(cluster: ClusterSpec) -> ClusterSpec:
    if not cluster.changes:
        return cluster
    rates = [[link.gbit_per_s, *(change.gbit_per_s for change in link.later or ())] for link in cluster.links]
    greatest = [max(of_link, key=lambda rate: rate.value) for of_link in rates]
    links = [replace(link, gbit_per_s=rate) for link, rate in zip(cluster.links, greatest, strict=True)]
    return replace(cluster, links=tuple(links))


@dataclass(frozen=True)
class _Cut:
    """The links into or out of one or several parts of the cluster, and the sums that must cross these links."""

    links: str
    """The links in words."""

    bytes_per_second: float
    """The rate of all links together."""

    replicas: tuple[int, ...]
    """For one part, the number of replicas whose sum crosses. For several parts, the replicas of each part; the sums of
    all parts cross."""

    all_replicas: int
    """The number of replicas on the cluster."""

    def seconds(self, variables: Sequence[Variable]) -> float:
        if len(self.replicas) == 1:
            (summed,) = self.replicas
            return _sum_of(variables, summed, self.all_replicas - summed) / self.bytes_per_second
        return _crossing(variables, self.replicas) / self.bytes_per_second


def _by_links(model: ModelSpec, cluster: ClusterSpec, overlaps: bool) -> Iterator[StepBound]:
    """Bounds by the bytes that cross links: for all gradients, and for those of paced passes released late and read
    early."""
    cuts = list(_cuts(cluster))
    yield from (StepBound(cut.seconds(model.variables), cut.links) for cut in cuts)
    paced = draw_passes(model, cluster, [str(device) for device in cluster.replica_devices])
    if paced is None:
        return
    by_read = sorted(
        (variable for variable in model.variables if variable.name in paced.ready),
        key=lambda variable: paced.read[variable.name] if overlaps else 0.0,
    )
    released = np.array([paced.forward + (1 - paced.forward) * paced.ready[variable.name] for variable in by_read])
    read = np.array([paced.forward * paced.read[variable.name] if overlaps else 0.0 for variable in by_read])
    passes = "paced passes from reads to gradients" if overlaps else "paced passes"
    for cut in cuts:
        crossing = np.array([cut.seconds([variable]) for variable in by_read])
        for begin in np.unique(released):
            # Sums up to each read; among variables that are read together, the last one's sum has all of them.
            summed = np.cumsum(crossing * (released >= begin)) + (begin - read) * paced.earliest_seconds
            yield StepBound(float(summed.max()), f"{passes} and then {cut.links}")


def _cuts(cluster: ClusterSpec) -> Iterator[_Cut]:
    replicas = Counter(device.node for device in cluster.replica_devices)
    if len(replicas) < 2:
        return
    all_replicas = replicas.total()
    links = [link for link in cluster.links if link.source != link.target]
    leaving, coming = ({node.name: 0.0 for node in cluster.nodes} for _ in range(2))
    for link in links:
        if link.source in leaving:
            leaving[link.source] += link.bytes_per_second
        if link.target in coming:
            coming[link.target] += link.bytes_per_second
    elsewhere = {node: all_replicas - held for node, held in replicas.items()}
    for rates, way, summed in ((leaving, "out of", replicas), (coming, "into", elsewhere)):
        yield _Cut(f"the links {way} all nodes together", sum(rates.values()), tuple(replicas.values()), all_replicas)
        for node, count in summed.items():
            yield _Cut(f"the links {way} {node}", rates[node], (count,), all_replicas)
    for switch in cluster.switches:
        yield from _around(switch, replicas, links)
    for link in links:
        others = [candidate for candidate in links if _ends(candidate) != _ends(link)]
        beyond = _reachable(link.target, others)
        inside = sum(count for node, count in replicas.items() if node in beyond)
        if link.source not in beyond and 0 < inside < all_replicas:
            words = f"link {link.source} > {link.target}"
            yield _Cut(words, link.bytes_per_second, (all_replicas - inside,), all_replicas)


def _around(switch: str, replicas: Counter[str], links: Sequence[Link]) -> Iterator[_Cut]:
    """The cuts of a switch from the parts attached to it. Two parts have none: the bound of each part is tighter."""
    at, rest = [link for link in links if switch in _ends(link)], [link for link in links if switch not in _ends(link)]
    parts: dict[frozenset[str], int] = {}
    for link in at:
        part = frozenset(_reachable((_ends(link) - {switch}).pop(), rest))
        parts[part] = sum(count for node, count in replicas.items() if node in part)
    held = [(part, count) for part, count in parts.items() if count]
    if len(held) < 3 or sum(count for _, count in held) > replicas.total():
        return
    for way, end in (("out of", "source"), ("into", "target")):
        rate = sum(link.bytes_per_second for link in at for part, _ in held if getattr(link, end) in part)
        counts = tuple(count for _, count in held)
        words = f"the links {way} everything attached to {switch} together"
        yield _Cut(words, rate, counts, replicas.total())


def _crossing(variables: Sequence[Variable], replicas: Sequence[int]) -> float:
    """The minimum bytes that have to leave (or enter) all parts together; `replicas` are the replicas of each part."""
    of_elements, elsewhere = 2 * len(replicas) - 2, [sum(replicas) - held for held in replicas]

    def out_of_parts(variable: Variable) -> float:
        if variable.sparse:
            touched = [_sum_bytes(variable, held) for held in replicas]
            if variable.copied:
                return (len(replicas) - 2) * _sum_bytes(variable, sum(replicas)) + sum(touched)
            return 2 * (sum(touched) - max(touched))
        return max(
            of_elements * _sum_bytes(variable, 1) if _is_summed_by_elements(variable) else 0.0,
            sum(_sum_bytes(variable, count) for count in elsewhere),
        )

    return sum(map(out_of_parts, variables))


def _by_cores(model: ModelSpec, cluster: ClusterSpec) -> Iterator[StepBound]:
    """Bounds by the cores on which replicas compute, if the model was profiled; nodes may share a machine's cores.

    A paced pass takes its drawn time, and only its release and held computation use cores.
    """
    replicas = [str(device) for device in cluster.replica_devices]
    paced = draw_passes(model, cluster, replicas)
    if paced is not None:
        yield StepBound(paced.least_seconds, "the paced passes")
        passes = paced.core_seconds
    elif model.profile is not None:
        passes = model.profile.forward_seconds + model.profile.backward_seconds
    else:
        return
    on_cores = replicas_on_cores(cluster, replicas)
    for machine, nodes in nodes_by_machine(cluster).items():
        if count := float(on_cores[nodes].sum()):
            reason = f"computing on the {machine.count:g} cores of {machine.machine}"
            yield StepBound(count * passes / machine.count, reason)


def _sum_of(variables: Sequence[Variable], replicas: int, others: int) -> float:
    """The minimum bytes of the sum of `replicas` gradients that cross to or from `others`."""
    stays = [variable.sparse and not variable.copied for variable in variables]
    return sum(
        _sum_bytes(variable, min(replicas, others) if rows_stay else replicas)
        for variable, rows_stay in zip(variables, stays, strict=True)
    )


def _is_summed_by_elements(variable: Variable) -> bool:
    return variable.factor_rows is None or variable.factor_rows >= min(variable.shape)


def _sum_bytes(variable: Variable, replicas: int) -> float:
    """The minimum bytes of the sum of `replicas` gradients of the variable, in any representation."""
    element = DTYPE_BYTES[variable.dtype]
    if variable.rows_per_step is not None:
        return min(variable.bytes, variable.rows_of(replicas) * variable.row_elements * element)
    if variable.factor_rows is not None:
        rank = min(replicas * variable.factor_rows, *variable.shape)
        return rank * (sum(variable.shape) - rank) * element
    return variable.bytes


def _ends(link: Link) -> set[str]:
    return {link.source, link.target}


def _reachable(start: str, links: Sequence[Link]) -> set[str]:
    """The nodes and switches reachable from `start`, including `start`."""
    reached, ahead = {start}, [start]
    while ahead:
        here = ahead.pop()
        fresh = {link.target for link in links if link.source == here} - reached
        reached |= fresh
        ahead += fresh
    return reached

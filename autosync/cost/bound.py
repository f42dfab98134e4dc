"""What no exact strategy can go below: a step's time by the bytes that must cross, and by what must be computed.

Notation: n nodes with replicas; M(k) bytes that the sum of k replicas' gradients comes to, at least; C(S) the bytes a
second that can leave a set of nodes S; F and B core-seconds of a replica's passes.

To add up n gradients element by element and make the sum known to n nodes takes 2 n - 2 messages, even if sums are
sent on (one-way gossiping: Harary and Schwenk 1974), each of M(1). Out of a set of nodes that holds some replicas and
not all of them, the sum of theirs must go, and into it the sum of the others'. So

    step >= (2 n - 2) M(1) / sum of C({node}),   the same of what can come in
    step >= sum over the nodes of M(replicas elsewhere) / sum of C({node}),   the same of what can come in
    step >= M(replicas within) / C(S) for every node, and every side of a link that alone joins two parts
    step >= M(replicas elsewhere) / what can come into it, the same
    step >= sum of (F + B) over the replicas on one machine's cores / these cores

What is paced is released at known times of its pass, and crosses no link before: what is released from T on, after the
fastest pass began, takes T and then as long as the links take for it alone.

All of this holds for any parts of a cluster as well, if each is taken for one node: of what hangs on a switch, racks
as well as nodes, G parts have to send 2 G - 2 sums out together.

In the first two, each variable counts with the larger. A dense variable comes to its bytes. If its gradients have b
rows of factors, the sum of k of them has in general rank r = min(k b, its sides), and is r times (the sum of its sides
less r) numbers, as many as tell matrices of that rank apart; fewer than its elements are no sum element by element, and
the first does not hold for them. A sparse one comes to the rows that a replica touches, which is what must
cross on average where batches are drawn at random, wherever rows are kept. Nothing is taken for latency, protocol,
copies and the optimizer, so no strategy comes all the way.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosync.cost.capacity import nodes_by_machine, paced_passes, replicas_on_cores
from autosync.layout.fitting.bound import trees_bound
from autosync.layout.topology import Topology
from autosync.spec import DTYPE_BYTES, ClusterSpec, Link, ModelSpec, Variable


@dataclass(frozen=True)
class StepBound:
    """Seconds that a step takes at least, as far as the cluster's figures are right, and what takes them."""

    seconds: float
    reason: str

    def share_gone(self, baseline_seconds: float, speedup: float) -> float | None:
        """The share of the way from a baseline's step to this bound that a `speedup` over it goes; below 0 if slower.

        None where the baseline is at the bound, or the bound is 0: then there is no way to go.
        """
        way = baseline_seconds - self.seconds
        return None if way <= 0 or self.seconds <= 0 else (baseline_seconds - baseline_seconds / speedup) / way


def step_bound(model: ModelSpec, cluster: ClusterSpec) -> StepBound:
    """The greatest of the bounds; 0 seconds where nothing crosses and nothing is known of computing.

    A link that changes counts with its greatest rate, so that the bound holds at any time.
    """
    cluster = _at_greatest_rates(cluster)
    bounds = [StepBound(0.0, "nothing"), *_by_links(model, cluster), *_by_cores(model, cluster)]
    return max(bounds, key=lambda bound: bound.seconds)


def all_reduce_bound_seconds(cluster: ClusterSpec, replicas: Sequence[str], size: float) -> float | None:
    """Seconds that the sum of `size` bytes of each replica takes at least to be with all, by the links between nodes.

    That is what the best packing of trees takes whose links never wait (`autosync.layout.fitting.packing`), to whatever
    nodes: to a parameter server as well. It is the greatest of the bounds by links above wherever that was tried, a
    hundred trees of switches. None for more than 16 nodes.
    """
    found = trees_bound(Topology(cluster, tuple(replicas)))
    return None if found is None else found * size


def _at_greatest_rates(cluster: ClusterSpec) -> ClusterSpec:
    if not cluster.changes:
        return cluster
    rates = [[link.gbit_per_s, *(each.gbit_per_s for each in link.later or ())] for link in cluster.links]
    greatest = [max(each, key=lambda rate: rate.value) for each in rates]
    links = [replace(link, gbit_per_s=rate) for link, rate in zip(cluster.links, greatest, strict=True)]
    return replace(cluster, links=tuple(links))


@dataclass(frozen=True)
class _Cut:
    """Links into or out of a part of the cluster, or of several parts: what sums must cross them, at which rate.

    `replicas` are those whose sum crosses, of one part; of several, those in each, whose sums all cross.
    """

    links: str
    bytes_per_second: float
    replicas: tuple[int, ...]

    def seconds(self, variables: Sequence[Variable]) -> float:
        if len(self.replicas) == 1:
            return _sum_of(variables, *self.replicas) / self.bytes_per_second
        return _crossing(variables, self.replicas) / self.bytes_per_second


def _by_links(model: ModelSpec, cluster: ClusterSpec) -> Iterator[StepBound]:
    """Bounds by what crosses links: of all gradients, and of those that are released late in paced passes."""
    cuts = list(_cuts(cluster))
    yield from (StepBound(cut.seconds(model.variables), cut.links) for cut in cuts)
    paced = paced_passes(model, cluster, [str(device) for device in cluster.replica_devices])
    if paced is None:
        return
    for fraction in sorted(set(paced.ready.values())):
        left = [each for each in model.variables if paced.ready.get(each.name, -1.0) >= fraction]
        begin = paced.earliest_seconds * (paced.forward + (1 - paced.forward) * fraction)
        for cut in cuts:
            yield StepBound(begin + cut.seconds(left), f"paced passes and then {cut.links}")


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
        yield _Cut(f"the links {way} all nodes together", sum(rates.values()), tuple(replicas.values()))
        for node, count in summed.items():
            yield _Cut(f"the links {way} {node}", rates[node], (count,))
    for switch in cluster.switches:
        yield from _around(switch, replicas, links)
    for link in links:
        beyond = _reached(link.target, [each for each in links if {each.source, each.target} != _ends(link)])
        inside = sum(count for node, count in replicas.items() if node in beyond)
        if link.source not in beyond and 0 < inside < all_replicas:
            yield _Cut(f"link {link.source} > {link.target}", link.bytes_per_second, (all_replicas - inside,))


def _around(switch: str, replicas: Counter[str], links: Sequence[Link]) -> Iterator[_Cut]:
    """All links of a switch to the parts that hang on it; two parts are bound by each one's links more."""
    at, rest = [link for link in links if switch in _ends(link)], [link for link in links if switch not in _ends(link)]
    parts: dict[frozenset[str], int] = {}
    for link in at:
        part = frozenset(_reached((_ends(link) - {switch}).pop(), rest))
        parts[part] = sum(count for node, count in replicas.items() if node in part)
    held = [(part, count) for part, count in parts.items() if count]
    if len(held) < 3 or sum(count for _, count in held) > replicas.total():
        return
    for way, end in (("out of", "source"), ("into", "target")):
        rate = sum(link.bytes_per_second for link in at for part, _ in held if getattr(link, end) in part)
        counts = tuple(count for _, count in held)
        yield _Cut(f"the links {way} all that hangs on {switch} together", rate, counts)


def _crossing(variables: Sequence[Variable], replicas: Sequence[int]) -> float:
    """Bytes that at least have to leave parts with so many replicas each, or to come into them, in all."""
    of_elements, others = 2 * len(replicas) - 2, [sum(replicas) - held for held in replicas]
    return sum(
        max(
            of_elements * _sum_bytes(variable, 1) if _is_summed_by_elements(variable) else 0.0,
            sum(_sum_bytes(variable, count) for count in others),
        )
        for variable in variables
    )


def _by_cores(model: ModelSpec, cluster: ClusterSpec) -> Iterator[StepBound]:
    """Bounds by the cores that replicas compute on, where the model was profiled; nodes may share one machine's. A
    paced pass takes what it takes, and of cores only what it spends there.
    """
    replicas = [str(device) for device in cluster.replica_devices]
    paced = paced_passes(model, cluster, replicas)
    if paced is not None:
        yield StepBound(paced.least_seconds, "the paced passes")
        passes = paced.core_seconds
    elif model.profile is not None:
        passes = model.profile.forward_seconds + model.profile.backward_seconds
    else:
        return
    at_work = replicas_on_cores(cluster, replicas)
    for machine, nodes in nodes_by_machine(cluster).items():
        if count := float(at_work[nodes].sum()):
            reason = f"computing on the {machine.count:g} cores of {machine.machine}"
            yield StepBound(count * passes / machine.count, reason)


def _sum_of(variables: Sequence[Variable], replicas: int) -> float:
    return sum(_sum_bytes(variable, replicas) for variable in variables)


def _is_summed_by_elements(variable: Variable) -> bool:
    return variable.factor_rows is None or variable.factor_rows >= min(variable.shape)


def _sum_bytes(variable: Variable, replicas: int) -> float:
    """The bytes that the sum of so many replicas' gradients of the variable comes to, however it is written down."""
    element = DTYPE_BYTES[variable.dtype]
    if variable.rows_per_step is not None:
        return variable.gradient_bytes
    if variable.factor_rows is not None:
        rank = min(replicas * variable.factor_rows, *variable.shape)
        return rank * (sum(variable.shape) - rank) * element
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

"""Seats: which living Ray nodes the nodes of a cluster spec stand for, and how many trials fit side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Node
from autosync.words.cluster import unlike_nodes

SAME_RATE_FACTOR = 1.5
"""Rates of links that differ by a smaller factor count as equal: two probes of one link come this close."""


def addresses_of(cluster: ClusterSpec) -> tuple[str, ...]:
    return tuple(node.address for node in cluster.nodes)


def groups_of(cluster: ClusterSpec, nodes_per_trial: int) -> list[ClusterSpec]:
    """Parts of `cluster` with `nodes_per_trial` nodes each, in its order, that share neither nodes nor links.

    Nodes of one switch stay together where they can; nodes that are over are left out. Raises `ClusterError` when there
    are too few for one group.
    """
    if nodes_per_trial > len(cluster.nodes):
        raise ClusterError(
            f"A trial needs {nodes_per_trial} nodes, but the cluster has {len(cluster.nodes)}; lower --nodes-per-trial."
        )
    by_switch: dict[str, list[str]] = {}
    for node in cluster.nodes:
        switch = next((link.target for link in cluster.links if link.source == node.name != link.target), "")
        by_switch.setdefault(switch, []).append(node.address)
    groups: list[list[str]] = []
    over: list[str] = []
    for members in (*by_switch.values(), over):
        whole = len(members) - len(members) % nodes_per_trial
        groups += [members[begin : begin + nodes_per_trial] for begin in range(0, whole, nodes_per_trial)]
        if members is not over:
            over += members[whole:]
    place = {node.address: number for number, node in enumerate(cluster.nodes)}
    parts = [part_of(cluster, sorted(group, key=place.__getitem__)) for group in groups]
    return [part for number, part in enumerate(parts) if not any(_share(part, each) for each in parts[:number])]


def _share(one: ClusterSpec, other: ClusterSpec) -> bool:
    """Whether trials on both would cross one link, such as a rack's uplink."""
    return bool(set(one.links) & set(other.links))


def part_of(cluster: ClusterSpec, addresses: Sequence[str]) -> ClusterSpec:
    """The nodes at `addresses`, in that order, with the links and switches between them."""
    by_address = {node.address: node for node in cluster.nodes}
    nodes = tuple(by_address[address] for address in addresses)
    routes = [cluster.route(one.name, other.name) for one in nodes for other in nodes]
    used = {link for route in routes for link in route}
    ends = {end for link in used for end in (link.source, link.target)}
    switches = tuple(switch for switch in cluster.switches if switch in ends)
    return ClusterSpec(nodes, tuple(link for link in cluster.links if link in used), switches)


def unlike_machines(one: ClusterSpec, other: ClusterSpec) -> str:
    """What differs between the machines of two clusters, node by node, in words; empty when nothing does."""
    for mine, its in zip(one.nodes, other.nodes, strict=True):
        if (mine.machine, mine.workers) != (its.machine, its.workers):
            return unlike_nodes(mine, its)
    return ""


def alike(one: ClusterSpec, other: ClusterSpec) -> str:
    """Why trials on `other` do not compare with those on `one`, in words; empty when they do.

    Nodes are compared in order, and links by the slowest on each route, measured a moment apart.
    """
    if machines := unlike_machines(one, other):
        return machines
    for source, its_source in zip(one.nodes, other.nodes, strict=True):
        for target, its_target in zip(one.nodes, other.nodes, strict=True):
            if _later(one, source, target) != _later(other, its_source, its_target):
                return (
                    f"other changes of links from {its_source.address} to {its_target.address} than from "
                    f"{source.address} to {target.address}"
                )
            my_rate, its_rate = _slowest(one, source, target), _slowest(other, its_source, its_target)
            if source != target and not 1 / SAME_RATE_FACTOR < my_rate / its_rate < SAME_RATE_FACTOR:
                return (
                    f"{its_rate:.3g} Gbit/s from {its_source.address} to {its_target.address}, "
                    f"{my_rate:.3g} from {source.address} to {target.address}"
                )
    return ""


def _slowest(cluster: ClusterSpec, source: Node, target: Node) -> float:
    """The rate in Gbit/s of the slowest link between two nodes."""
    return min(link.gbit_per_s.value for link in cluster.route(source.name, target.name))


def _later(cluster: ClusterSpec, source: Node, target: Node) -> list[object]:
    """The rates that the links between two nodes have later."""
    return [link.later for link in cluster.route(source.name, target.name) if link.later]


def seated_like(cluster: ClusterSpec, addresses: Sequence[str]) -> ClusterSpec:
    """`cluster` with its nodes at `addresses`, in order."""
    nodes = tuple(replace(node, address=there) for node, there in zip(cluster.nodes, addresses, strict=True))
    return replace(cluster, nodes=nodes)


def seats(cluster: ClusterSpec, machines: Mapping[str, Node], spare: Sequence[str]) -> list[str] | None:
    """Spare addresses for all nodes of `cluster`, a machine like it for each; None when they do not suffice."""
    return _filled(cluster.nodes, machines, spare, lambda _: None)


def reseated(cluster: ClusterSpec, machines: Mapping[str, Node], spare: Sequence[str]) -> ClusterSpec | None:
    """`cluster` with each node that left seated at a spare machine like it; None when there are not enough."""
    addresses = _filled(cluster.nodes, machines, spare, lambda node: node.address if node.address in machines else None)
    return None if addresses is None else seated_like(cluster, addresses)


def _filled(
    nodes: Iterable[Node], machines: Mapping[str, Node], spare: Sequence[str], keep: Callable[[Node], str | None]
) -> list[str] | None:
    free, addresses = list(spare), []
    for node in nodes:
        address = keep(node)
        if address is None:
            address = next((each for each in free if node.on(machines[each]).machine == node.machine), None)
            if address is None:
                return None
            free.remove(address)
        addresses.append(address)
    return addresses

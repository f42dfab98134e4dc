"""Matches the nodes of a cluster spec to living Ray nodes, and divides clusters into groups for parallel trials."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Node
from autosync.words.cluster import unlike_nodes

SAME_RATE_FACTOR = 1.5
"""Link rates that differ by a smaller factor count as equal, because two probes of one link may differ that much."""


def addresses_of(cluster: ClusterSpec) -> tuple[str, ...]:
    return tuple(node.address for node in cluster.nodes)


def groups_of(cluster: ClusterSpec, nodes_per_trial: int) -> list[ClusterSpec]:
    """Divide `cluster` into groups of `nodes_per_trial` nodes, in its order, that share neither nodes nor links.

    Nodes of one switch stay together if possible; surplus nodes are omitted. Raises `ClusterError` if there are too few
    nodes for one group.
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
    surplus: list[str] = []
    for members in (*by_switch.values(), surplus):
        whole = len(members) - len(members) % nodes_per_trial
        groups += [members[begin : begin + nodes_per_trial] for begin in range(0, whole, nodes_per_trial)]
        if members is not surplus:
            surplus += members[whole:]
    position = {node.address: number for number, node in enumerate(cluster.nodes)}
    parts = [part_of(cluster, sorted(group, key=position.__getitem__)) for group in groups]
    return [part for number, part in enumerate(parts) if not any(_share(part, earlier) for earlier in parts[:number])]


def _share(first: ClusterSpec, second: ClusterSpec) -> bool:
    """True if trials on both groups would cross a common link, such as a rack's uplink."""
    return bool(set(first.links) & set(second.links))


def part_of(cluster: ClusterSpec, addresses: Sequence[str]) -> ClusterSpec:
    """Return the nodes at `addresses`, in that order, with the links and switches between them."""
    by_address = {node.address: node for node in cluster.nodes}
    nodes = tuple(by_address[address] for address in addresses)
    routes = [cluster.route(source.name, target.name) for source in nodes for target in nodes]
    used = {link for route in routes for link in route}
    ends = {end for link in used for end in (link.source, link.target)}
    switches = tuple(switch for switch in cluster.switches if switch in ends)
    return ClusterSpec(nodes, tuple(link for link in cluster.links if link in used), switches)


def unlike_machines(first: ClusterSpec, second: ClusterSpec) -> str:
    """Return the first difference between the machines of two clusters, node by node, in words; empty if there is
    none.
    """
    for node, counterpart in zip(first.nodes, second.nodes, strict=True):
        if (node.machine, node.workers) != (counterpart.machine, counterpart.workers):
            return unlike_nodes(node, counterpart)
    return ""


def alike(first: ClusterSpec, second: ClusterSpec) -> str:
    """Return why trials on `second` are not comparable with trials on `first`, in words; empty if they are.

    Nodes are compared in order, and links by the slowest on each route, as measured a moment ago.
    """
    if machines := unlike_machines(first, second):
        return machines
    for source, second_source in zip(first.nodes, second.nodes, strict=True):
        for target, second_target in zip(first.nodes, second.nodes, strict=True):
            if _later(first, source, target) != _later(second, second_source, second_target):
                return (
                    f"other changes of links from {second_source.address} to {second_target.address} than from "
                    f"{source.address} to {target.address}"
                )
            rate, second_rate = _slowest(first, source, target), _slowest(second, second_source, second_target)
            if source != target and not 1 / SAME_RATE_FACTOR < rate / second_rate < SAME_RATE_FACTOR:
                return (
                    f"{second_rate:.3g} Gbit/s from {second_source.address} to {second_target.address}, "
                    f"{rate:.3g} from {source.address} to {target.address}"
                )
    return ""


def _slowest(cluster: ClusterSpec, source: Node, target: Node) -> float:
    """Return the rate in Gbit/s of the slowest link between two nodes."""
    return min(link.gbit_per_s.value for link in cluster.route(source.name, target.name))


def _later(cluster: ClusterSpec, source: Node, target: Node) -> list[object]:
    """Return the later rates of the links between two nodes."""
    return [link.later for link in cluster.route(source.name, target.name) if link.later]


def seat_at(cluster: ClusterSpec, addresses: Sequence[str]) -> ClusterSpec:
    """Return `cluster` with its nodes at `addresses`, in order."""
    nodes = tuple(replace(node, address=address) for node, address in zip(cluster.nodes, addresses, strict=True))
    return replace(cluster, nodes=nodes)


def find_seats(cluster: ClusterSpec, machines: Mapping[str, Node], spare: Sequence[str]) -> list[str] | None:
    """Return a spare address with an equal machine for every node of `cluster`; None if there are not enough."""
    return _fill_seats(cluster.nodes, machines, spare, lambda _: None)


def reseat(cluster: ClusterSpec, machines: Mapping[str, Node], spare: Sequence[str]) -> ClusterSpec | None:
    """Return `cluster` with each lost node moved to a spare machine like it; None if there are not enough."""
    addresses = _fill_seats(
        cluster.nodes, machines, spare, lambda node: node.address if node.address in machines else None
    )
    return None if addresses is None else seat_at(cluster, addresses)


def _fill_seats(
    nodes: Iterable[Node], machines: Mapping[str, Node], spare: Sequence[str], keep: Callable[[Node], str | None]
) -> list[str] | None:
    free, addresses = list(spare), []
    for node in nodes:
        address = keep(node)
        if address is None:
            address = next(
                (candidate for candidate in free if node.on(machines[candidate]).machine == node.machine), None
            )
            if address is None:
                return None
            free.remove(address)
        addresses.append(address)
    return addresses

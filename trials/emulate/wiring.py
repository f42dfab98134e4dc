"""The interfaces and veth pairs of an emulated cluster: every part of its network that is known without root."""

from dataclasses import dataclass, replace
from functools import cached_property

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Link
from trials.cluster.ray_labels import Later


@dataclass(frozen=True)
class Port:
    """An interface in a network namespace, on a bridge if it is a switch's."""

    namespace: str
    interface: str
    gbit_per_s: float | None
    """The limit on outgoing traffic; None for no limit."""
    bridge: str | None = None


@dataclass(frozen=True)
class VethPair:
    """A veth pair between a node and its switch (`a` is the node's end), or between two switches."""

    a: Port
    b: Port


@dataclass(frozen=True)
class Wiring:
    """The network of the emulated cluster `name`.

    Raises `ClusterError` if bridges and veth pairs cannot form `cluster`.
    """

    name: str
    cluster: ClusterSpec

    def __post_init__(self) -> None:
        nodes = {node.name for node in self.cluster.nodes}
        pairs = {(link.source, link.target) for link in self._links}
        for source, target in sorted(pairs):
            if source in nodes and target in nodes:
                raise ClusterError(
                    f"Emulated nodes are joined through switches, but a link leads from {source!r} straight to "
                    f"{target!r}; put a switch between them."
                )
            if (target, source) not in pairs:
                raise ClusterError(f"An emulated link has two directions; add the link from {target!r} to {source!r}.")
        if len(pairs) != len(self._links):
            raise ClusterError("An emulated link is stated once for each direction; remove the repeated ones.")
        for node in self.cluster.nodes if len(nodes) > 1 else ():
            if len([target for source, target in pairs if source == node.name]) != 1:
                raise ClusterError(f"An emulated node is attached to one switch; give {node.name!r} one link each way.")
        self._check_switches(pairs)

    def _check_switches(self, pairs: set[tuple[str, str]]) -> None:
        """Refuse circles, because the kernel's bridges would forward every broadcast forever."""
        island = {switch: switch for switch in self.cluster.switches}
        for source, target in sorted(pairs):
            if source < target and source in island and target in island:
                merged, absorbed = island[source], island[target]
                if merged == absorbed:
                    raise ClusterError(
                        f"Emulated switches must not form a circle; remove the links between {source!r} and {target!r}."
                    )
                island = {switch: merged if at == absorbed else at for switch, at in island.items()}

    @cached_property
    def switch_namespace(self) -> str:
        return f"as-{self.name}-switch"

    def node_namespace(self, index: int) -> str:
        return f"as-{self.name}-{index}"

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        return (self.switch_namespace, *(self.node_namespace(index) for index in range(len(self.cluster.nodes))))

    @cached_property
    def bridges(self) -> dict[str, str]:
        """The names of bridges, by switch."""
        return {switch: f"br{index}" for index, switch in enumerate(self.cluster.switches)}

    @cached_property
    def with_addresses(self) -> ClusterSpec:
        """The cluster with its nodes at 10.77.0.1, 10.77.0.2 and so on."""
        nodes = tuple(replace(node, address=f"10.77.0.{i + 1}") for i, node in enumerate(self.cluster.nodes))
        return replace(self.cluster, nodes=nodes)

    @cached_property
    def veth_pairs(self) -> tuple[VethPair, ...]:
        """The veth pairs of the nodes in their order, then those between switches."""
        return (*self._node_pairs, *self._trunks)

    def node_pair(self, index: int) -> VethPair | None:
        """Return the veth pair of the node at `index`; None in a cluster of one node."""
        return self._node_pairs[index] if self._node_pairs else None

    def switch_of(self, node: str) -> str | None:
        return next((link.target for link in self._links if link.source == node), None)

    def later_of(self, node: str, switch: str) -> Later:
        """Return the later rates, up and down, of the node's link to `switch`, and of the link from there to the last
        switch.
        """
        by_ends, top = {(link.source, link.target): link for link in self._links}, self.cluster.switches[-1]
        links = [by_ends.get(ends) for ends in ((node, switch), (switch, node), (switch, top), (top, switch))]
        return tuple(link.later if link else None for link in links)

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        return tuple(link for link in self.cluster.links if link.source != link.target)

    @cached_property
    def _rates(self) -> dict[tuple[str, str], float | None]:
        """The rates in Gbit/s by direction; None if a figure is only assumed."""
        return {
            (link.source, link.target): None if link.gbit_per_s.source == "assumed" else link.gbit_per_s.value
            for link in self._links
        }

    @cached_property
    def _node_pairs(self) -> tuple[VethPair, ...]:
        pairs = []
        for index, node in enumerate(self.cluster.nodes):
            switch = self.switch_of(node.name)
            if switch is not None:
                up, down = self._rates[node.name, switch], self._rates[switch, node.name]
                a = Port(self.node_namespace(index), "eth0", up)
                pairs.append(VethPair(a, Port(self.switch_namespace, f"port{index}", down, self.bridges[switch])))
        return tuple(pairs)

    @cached_property
    def _trunks(self) -> tuple[VethPair, ...]:
        bridges = self.bridges
        pairs: list[VethPair] = []
        for (source, target), rate in self._rates.items():
            if source in bridges and target in bridges and bridges[source] < bridges[target]:
                name, back = f"trunk{len(pairs)}", self._rates[target, source]
                a = Port(self.switch_namespace, f"{name}a", rate, bridges[source])
                pairs.append(VethPair(a, Port(self.switch_namespace, f"{name}b", back, bridges[target])))
        return tuple(pairs)

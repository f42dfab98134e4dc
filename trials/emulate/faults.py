"""Faults of a node: death, restart, an unplugged link, and a node that joins."""

from dataclasses import replace

from autosync.errors import ClusterError
from trials.emulate.changes import cluster_now
from trials.emulate.hosts import start_host
from trials.emulate.lifecycle import Emulated, joining, of_state, quota_of
from trials.emulate.network import commands_of, run_all, set_wire
from trials.emulate.processes import end_all
from trials.emulate.quotas import make_quota
from trials.emulate.ray_nodes import join_rays
from trials.emulate.state import State, lock_folder, read_state, write_state
from trials.emulate.wiring import Wiring


def kill_node(emulated: Emulated, node: str) -> None:
    """End every process of the node at once, like a power cut; its links and files stay."""
    with lock_folder(_state(emulated).folder):
        host = of_state(_state(emulated)).host(node)  # after a restart, the node has another init than in `emulated`
        end_all([host.init] if host.init else [])


def restart_node(emulated: Emulated, node: str) -> Emulated:
    """Start the node again, after killing it if it lives; Ray rejoins. Raises `ClusterError` for the head."""
    state, index = _state(emulated), emulated.host(node).index
    if index == 0 and state.starts_ray:
        raise ClusterError(f"Node {node!r} is the head, and a Ray cluster ends with its head; use `down` and `up`.")
    kill_node(emulated, node)
    with lock_folder(state.folder):
        return of_state(_start(_state(emulated), index))


def set_link(emulated: Emulated, node: str, up: bool) -> None:
    """Plug the node in, or unplug it at its switch: packets are lost without any notice."""
    set_wire(Wiring(emulated.name, emulated.cluster), emulated.host(node).index, up)


def add_node(emulated: Emulated) -> Emulated:
    """Add one more node at the first node's switch, with the first node's cores and links."""
    state = _state(emulated)
    cluster, index = state.cluster, len(state.cluster.nodes)
    first = cluster.nodes[0]
    name = next(name for k in range(index, 2 * index + 1) if (name := f"node{k}") not in _names(state))
    renamed = {first.name: name}
    links = [
        replace(link, source=renamed.get(link.source, link.source), target=renamed.get(link.target, link.target))
        for link in cluster.links
        if first.name in (link.source, link.target)
    ]
    if all(link.source == link.target for link in links):
        raise ClusterError("A cluster of one node has no switch, so no node can join; make a cluster of two or more.")
    larger = replace(cluster, nodes=(*cluster.nodes, replace(first, name=name)), links=(*cluster.links, *links))
    wiring = Wiring(state.name, larger)
    group = quota_of(wiring, index)
    with lock_folder(state.folder):
        existing = commands_of(Wiring(state.name, cluster_now(state)))
        state = replace(
            state,
            cluster=wiring.with_addresses,
            namespaces=wiring.namespaces,
            cgroups=(*state.cgroups, *([str(group)] if group else [])),
        )
        write_state(state)
        wanted = commands_of(Wiring(state.name, cluster_now(state)))
        run_all([command for command in wanted if command not in existing])
        if group:
            make_quota(group, first.cores)
        return of_state(_start(state, index))


def _start(state: State, index: int) -> State:
    host = of_state(state).hosts[index]
    state = state.with_process(f"host{index}", start_host(host))
    write_state(state)
    if state.starts_ray:
        join_rays([joining(state, index)], of_state(state).hosts[0])
    return state


def _state(emulated: Emulated) -> State:
    state = read_state(emulated.name)
    if state is None or not state.is_up:
        raise ClusterError(f"No emulated cluster {emulated.name!r} is up; make it with `up`.")
    return state


def _names(state: State) -> set[str]:
    return {node.name for node in state.cluster.nodes} | set(state.cluster.switches)

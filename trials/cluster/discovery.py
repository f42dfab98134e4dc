"""Discovers the nodes of a running Ray cluster, or of this machine alone, as a `ClusterSpec`."""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Node
from trials.cluster.addresses import check_ipv4_nodes
from trials.cluster.node_matching import part_of, seat_at
from trials.cluster.racks import ASSUMED_UPLINK, CORE, AttachedNode, Uplink, join_nodes
from trials.cluster.ray_labels import later_of, machines_of, rack_of

LOOPBACK = "127.0.0.1"
"""The address of a machine that simulates a cluster by itself; only its own processes can connect there."""

WORKERS_OF_A_SINGLE_NODE = 4
"""The default number of worker processes of a CPU machine that simulates a cluster."""

MOST_WORKERS_A_CORE = 64
"""The largest number of workers a core.

A worker is a process with TensorFlow, which takes hundreds of MB. More workers would exceed the memory that a machine
has for a core, and Ray starts all of them at once, before a message could be shown.
"""


def cluster_from_ray_nodes(ray_nodes: Sequence[Mapping[str, Any]], workers: int | None = None) -> ClusterSpec:
    """Return the cluster that `ray.nodes()` describes, the head first, with assumed links.

    `workers` is the number of worker processes in all. By default, a node has as many as its label states, or else one;
    a single CPU node without the label simulates a cluster with four. More workers than nodes are spread evenly. Nodes
    with the Ray label `rack` are attached to that switch. Raises `ClusterError`.
    """
    alive = _alive(ray_nodes)
    machines = [machine for node in alive for machine in machines_of([node]).values()]
    counts = [machine.workers for machine in machines]
    if workers is not None:
        _check_workers(workers)
        quotient, remainder = divmod(workers, len(alive))
        counts = [quotient + (index < remainder) for index in range(len(alive))]
    elif counts == [1] and not machines[0].gpus:
        counts = [WORKERS_OF_A_SINGLE_NODE]
    if any(machine.gpus for machine in machines) and sum(counts) > len(alive):
        raise ClusterError(
            f"One worker process drives all GPUs of a node, so {len(alive)} node(s) take at most {len(alive)} "
            f"workers, not {sum(counts)}."
        )
    used = [chosen for chosen in zip(alive, machines, counts, strict=True) if chosen[-1]]
    return join_nodes(
        [
            AttachedNode(replace(machine, name=f"node{index}", workers=count), _uplinks(node)[0], _rack(node))
            for index, (node, machine, count) in enumerate(used)
        ],
        {rack: _uplinks(node)[1] for node, _, _ in used if (rack := _rack(node)) is not None},
    )


def match_cluster(stated: ClusterSpec, ray_nodes: Sequence[Mapping[str, Any]], missing_ok: bool = False) -> ClusterSpec:
    """Return `stated`, in its order, with the cores and GPUs of Ray's living nodes at its addresses.

    Other Ray nodes are not used. Stated nodes that are not alive are an error, or omitted if `missing_ok`. If a single
    node is stated and a single node is alive, no address is needed, and a Ray on loopback matches any address of this
    machine. Raises `ClusterError`.
    """
    machines = machines_of(_alive(ray_nodes))
    if len(stated.nodes) == len(machines) == 1 and _is_here(stated.nodes[0].address, machines):
        stated = seat_at(stated, list(machines))
    living = f"Living: {', '.join(machines)}."
    for node in stated.nodes:
        if not node.address:
            raise ClusterError(f"Every node is found by its address, but {node.name!r} states none. {living}")
        if node.address not in machines and not missing_ok:
            raise ClusterError(
                f"Every stated node must be a living Ray node, but none lives at {node.address} ({node.name!r}); "
                f"start Ray there, or correct the cluster file. {living}"
            )
    if stated.changes and not any(later_of(node) for node in ray_nodes):
        raise ClusterError(
            "The cluster file states `changes`, which only an emulated cluster carries out; give the file to `autosync "
            "emulate up` or `--emulate`, or omit `changes`."
        )
    alive = [node.address for node in stated.nodes if node.address in machines]
    if not alive:
        raise ClusterError(f"None of the stated nodes is alive; start Ray on them. {living}")
    part = stated if len(alive) == len(stated.nodes) else part_of(stated, alive)
    return replace(part, nodes=tuple(_as_found(node, machines[node.address]) for node in part.nodes))


def _is_here(address: str, machines: Mapping[str, Node]) -> bool:
    """True if a node stated at `address`, perhaps empty, is the machine of the only living Ray node."""
    if not address:
        return True
    if list(machines) != [LOOPBACK]:
        return False
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def local_cluster(workers: int = WORKERS_OF_A_SINGLE_NODE) -> ClusterSpec:
    """Return this machine as a cluster: `workers` workers share its CPU cores, links are assumed.

    Raises `ClusterError`.
    """
    _check_workers(workers)
    check_room_here(workers)
    return join_nodes(
        [AttachedNode(Node("node0", LOOPBACK, float(os.cpu_count() or 1), workers=workers), ASSUMED_UPLINK)], {}
    )


def check_room_here(workers: int) -> None:
    """Raise `ClusterError` for more workers than this machine alone can hold."""
    cores = os.cpu_count() or 1
    most = MOST_WORKERS_A_CORE * cores
    if workers > most:
        raise ClusterError(
            f"This machine takes at most {most} workers, {MOST_WORKERS_A_CORE} for each of its {cores} cores, "
            f"not {workers}; lower --workers, or join a cluster of several machines with --address."
        )


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise ClusterError(f"A trial needs at least 1 worker, not {workers}; raise --workers.")


def _alive(ray_nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    alive = sorted((node for node in ray_nodes if node.get("Alive")), key=_head_first)
    if not alive:
        raise ClusterError("The Ray cluster has no living node; start one with `ray up cluster.yaml` or `ray start`.")
    check_ipv4_nodes([_address(node) for node in alive])
    return alive


def _head_first(node: Mapping[str, Any]) -> tuple[bool, list[int], str]:
    """Return a node's sort key: the head first, then by address (10.0.0.10 comes after 10.0.0.9)."""
    numbers = [int(digits) for digits in re.findall(r"\d+", _address(node))]
    return "node:__internal_head__" not in node["Resources"], numbers, _address(node)


def _address(node: Mapping[str, Any]) -> str:
    return str(node["NodeManagerAddress"])


def _rack(node: Mapping[str, Any]) -> str | None:
    """Return the name of the node's rack; None for a node outside of racks, which is attached to the core switch."""
    rack = rack_of(node)
    return None if rack == CORE else rack


def _as_found(node: Node, machine: Node) -> Node:
    if machine.gpus and node.workers > 1:
        raise ClusterError(
            f"One worker process drives all GPUs of a node, but the cluster file states {node.workers} workers for "
            f"{node.name!r}, which has {machine.gpus}; leave `workers` out."
        )
    return node.on(machine)


def _uplinks(ray_node: Mapping[str, Any]) -> tuple[Uplink, Uplink]:
    """Return the links of the node and of its rack: current rates are assumed, later rates come from its labels."""
    up, down, rack_up, rack_down = later_of(ray_node) or (None,) * 4
    return (
        replace(ASSUMED_UPLINK, up_later=up, down_later=down),
        replace(ASSUMED_UPLINK, up_later=rack_up, down_later=rack_down),
    )

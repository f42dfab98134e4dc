"""Converts nodes to and from Ray's labels and resources: the options of `ray start`, and the answer of
`ray.nodes()`.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from autosync.errors import ClusterError
from autosync.spec import LaterRate, Node, Pace, SharedCores, canonical_json, cut, parse_json

T = TypeVar("T")

CORES_LABEL = "autosync-cores"
"""The label with the node's true number of cores, perhaps fractional; its CPUs are slots for Ray and may be more."""

CORES_RESOURCE = "autosync_cores"
"""The resource with the same number, rounded up, which Ray itself can read."""

RACK_LABEL = "rack"
"""The label with the node's rack: `ray start --labels=rack=left`."""

WORKERS_LABEL = "autosync-workers"
"""The label with the number of the node's workers, if several."""

MACHINE_LABEL, MACHINE_CORES_LABEL = "autosync-machine", "autosync-machine-cores"
"""Labels of emulated nodes: the name of the machine that they share, and its number of cores."""

PACE_LABEL, LATER_LABEL, PIECE = "autosync-pace-", "autosync-later-", 60
"""Prefixes of labels for a node's pace, and for the later rates of the links from the node to the top switch.

The content is JSON with every byte as two hexadecimal digits, in pieces of 60 digits, because Ray limits labels."""

Later = tuple[tuple[LaterRate, ...] | None, ...]
"""The later rates of a node's link and its rack's link, in the order of `WAYS`; empty if unknown."""

WAYS = ("up", "down", "rack_up", "rack_down")

EMULATING = "emulating"
"""The name of the machine whose cores the nodes of an emulated cluster share."""

RAY_SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray lowers the priority of its workers, so a busy process would leave them a thirtieth of its share.
    "RAY_worker_niceness": "0",
    # Ray would start an idle Python process for each slot.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}


def start_options(node: Node, rack: str | None, later: Later = ()) -> list[str]:
    """Return the options of `ray start` for `node`.

    Worker processes share the cores, so Ray gets a slot for each worker, and the true count as the resource
    `autosync_cores`. Ray needs that resource as a whole number: it is rounded up, and the label holds the exact number.
    """
    labels = {CORES_LABEL: f"{node.cores:g}", **({RACK_LABEL: rack} if rack else {})}
    if node.workers > 1:
        labels[WORKERS_LABEL] = str(node.workers)
    if node.shared_cores is not None:
        labels |= {MACHINE_LABEL: node.shared_cores.machine, MACHINE_CORES_LABEL: f"{node.shared_cores.count:g}"}
    if node.pace is not None:
        labels |= _in_pieces(PACE_LABEL, node.pace.to_json())
    if any(later):
        rates_by_way = {
            way: [rate.to_json() for rate in rates] for way, rates in zip(WAYS, later, strict=True) if rates
        }
        labels |= _in_pieces(LATER_LABEL, rates_by_way)
    return [
        f"--num-cpus={max(4, math.ceil(node.cores), node.workers + 2)}",
        f"--num-gpus={node.gpus}",
        f"--resources={json.dumps({CORES_RESOURCE: math.ceil(node.cores)})}",
        f"--labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    ]


def machines_of(ray_nodes: Sequence[Mapping[str, Any]]) -> dict[str, Node]:
    """Return the living nodes of `ray.nodes()` by address, in its order; the name of each node is its address."""
    return {str(node["NodeManagerAddress"]): _node_of(node) for node in ray_nodes if node.get("Alive")}


def _node_of(ray_node: Mapping[str, Any]) -> Node:
    address, resources, labels = str(ray_node["NodeManagerAddress"]), ray_node["Resources"], _labels_of(ray_node)
    cores = labels.get(CORES_LABEL) or resources.get(CORES_RESOURCE) or resources.get("CPU", 1.0)
    shared = None
    if MACHINE_LABEL in labels and MACHINE_CORES_LABEL in labels:
        shared = SharedCores(labels[MACHINE_LABEL], float(labels[MACHINE_CORES_LABEL]))
    gpus = int(resources.get("GPU", 0))
    workers = int(labels.get(WORKERS_LABEL, 1))
    return Node(address, address, float(cores), workers, gpus, shared_cores=shared, pace=_pace_of(labels, address))


def _pace_of(labels: Mapping[str, str], address: str) -> Pace | None:
    return _from_pieces(PACE_LABEL, labels, address, "pace", Pace.from_json)


def later_of(ray_node: Mapping[str, Any]) -> Later:
    """Return the later link rates from the node's labels; empty without such labels.

    Raises `ClusterError` if invalid.
    """

    def read(document: dict[str, Any]) -> Later:
        return tuple(tuple(map(LaterRate.from_json, document.get(way, ()))) or None for way in WAYS)

    address = str(ray_node["NodeManagerAddress"])
    return _from_pieces(LATER_LABEL, _labels_of(ray_node), address, "later rates", read) or ()


def _in_pieces(label: str, document: Mapping[str, Any]) -> dict[str, str]:
    text = canonical_json(document).encode().hex()
    return {f"{label}{at}": text[at : at + PIECE] for at in range(0, len(text), PIECE)}


def _from_pieces(
    label: str, labels: Mapping[str, str], address: str, what: str, read: Callable[[dict[str, Any]], T]
) -> T | None:
    """Return the result of `read` on the labels of the node at `address`. Raises `ClusterError` for invalid labels."""
    try:
        pieces = {int(key.removeprefix(label)): labels[key] for key in labels if key.startswith(label)}
        text = "".join(pieces[at] for at in sorted(pieces))
        return read(parse_json(bytes.fromhex(text).decode(), what)) if text else None
    except (TypeError, ValueError) as error:
        raise ClusterError(
            f"The labels {label}... of the Ray node at {address} hold no {what} ({cut(str(error))}); start Ray there "
            "without them."
        ) from None


def rack_of(ray_node: Mapping[str, Any]) -> str | None:
    """Return the rack in the node's labels."""
    return _labels_of(ray_node).get(RACK_LABEL) or None


def _labels_of(ray_node: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = ray_node.get("Labels", {})
    return labels

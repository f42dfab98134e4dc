"""A `resource_spec` file: the nodes of a cluster, and AutoDist's names of their devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.dataset.autosync_import.messages import read_bytes
from autosync.errors import DatasetError
from autosync.spec import ClusterSpec, Figure, Link, Node, cut, quote
from autosync.yaml_text import parse_yaml

ASSUMED_GBIT_PER_S, ASSUMED_US, ASSUMED_HOST_GBIT_PER_S = 1.0, 100.0, 8.0
UNKNOWN_CORES = 1.0


@dataclass(frozen=True)
class ResourceSpec:
    """A cluster with AutoDist's names of its devices."""

    cluster: ClusterSpec
    devices: Mapping[str, str]
    """The device's name here (`node0/gpu:0`) by AutoDist's name (`10.0.0.1:GPU:0`)."""

    def device(self, name: str) -> str:
        """Return the name here of the device that AutoDist calls `name`. Raises `DatasetError`."""
        try:
            return self.devices[name]
        except KeyError:
            raise DatasetError(f"Device {quote(name)} is not in the sample's resource_spec.") from None


def read_resources(file: Path) -> ResourceSpec:
    """Return the cluster in `file`, whose chief is the first node. Raises `DatasetError`."""
    try:
        document = parse_yaml(read_bytes(file), str(file))
        entries = sorted(document["nodes"], key=lambda entry: not entry.get("chief", False))
        nodes = [_Entry.of(entry, f"node{index}") for index, entry in enumerate(entries)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DatasetError(f"{file} must be a resource_spec of AutoDist, but: {cut(repr(error))}.") from None
    if not nodes:
        raise DatasetError(f"{file} must be a resource_spec of AutoDist, but lists no node.")
    switches = ("switch",) if len(nodes) > 1 else ()
    links = [link for node in nodes for link in node.links(switches)]
    cluster = ClusterSpec(tuple(node.node for node in nodes), tuple(links), switches)
    return ResourceSpec(cluster, {theirs: ours for node in nodes for theirs, ours in node.devices()})


@dataclass(frozen=True)
class _Entry:
    """A node as stated in the file. A node with GPUs has one worker process; another node has one per CPU device."""

    node: Node
    gpus: tuple[int, ...]
    cpus: tuple[int, ...]
    rate: Figure

    @classmethod
    def of(cls, entry: Mapping[str, Any], name: str) -> _Entry:
        gpus = tuple(sorted({int(number) for number in entry.get("gpus") or ()}))
        cpus = tuple(sorted({0, *(int(number) for number in entry.get("cpus") or ())}))
        stated = entry.get("network_bandwidth")
        rate = Figure(ASSUMED_GBIT_PER_S, "assumed") if stated is None else Figure(float(stated), "stated")
        workers = 1 if gpus else len(cpus)
        return cls(Node(name, str(entry["address"]), UNKNOWN_CORES, workers, len(gpus)), gpus, cpus, rate)

    def links(self, switches: tuple[str, ...]) -> Iterator[Link]:
        name, latency = self.node.name, Figure(ASSUMED_US, "assumed")
        yield Link(name, name, Figure(ASSUMED_HOST_GBIT_PER_S, "assumed"), latency)
        for switch in switches:
            yield Link(name, switch, self.rate, latency)
            yield Link(switch, name, self.rate, latency)

    def devices(self) -> Iterator[tuple[str, str]]:
        address = self.node.address
        for index, number in enumerate(self.gpus):
            yield f"{address}:GPU:{number}", f"{self.node.name}/gpu:{index}"
        for index, number in enumerate(self.cpus):
            yield f"{address}:CPU:{number}", f"{self.node.name}/cpu:{0 if self.gpus else index}"

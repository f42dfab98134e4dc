"""AutoDist's resource_spec.yml, turned into a cluster file.

Its CPU devices are processes that variables and replicas can live on, so they become `workers`; where a node has GPUs
they are ignored, as AutoDist does. GPUs are counted. What a cluster file has no place for, since Ray starts the
processes, is left out with a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from autosync.spec import MOST_NODES, listed
from autosync.spec.codec import first_repeated
from trials.cluster.addresses import ipv4_address
from trials.cluster.checked_yaml import read_checked

CHECKED = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _address(value: str) -> str:
    if value == "localhost":
        return "127.0.0.1"
    return ipv4_address(value, "an address is an IP address or localhost")


Number = Annotated[int, Field(ge=0)]


class ResourceNode(BaseModel):
    """A node as AutoDist states it; `network_bandwidth` in Gbit/s."""

    model_config = CHECKED

    address: Annotated[str, AfterValidator(_address)]
    gpus: list[Number] = Field(default_factory=list)
    cpus: list[Number] = Field(default_factory=list)
    chief: bool = False
    ssh_config: str | None = None
    network_bandwidth: float | None = Field(None, gt=0)


class ResourceSpec(BaseModel):
    """The whole file."""

    model_config = CHECKED

    nodes: list[ResourceNode] = Field(min_length=1, max_length=MOST_NODES)
    ssh: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_chief(self) -> ResourceSpec:
        addresses = [node.address for node in self.nodes]
        chiefs = [node.address for node in self.nodes if node.chief]
        if len(self.nodes) == 1:
            return self
        if len(chiefs) != 1:
            told = listed(chiefs)
            raise ValueError(f"nodes: exactly one of several nodes says `chief: true`, not {told}.")
        for index, address in enumerate(addresses):
            if ip_address(address).is_loopback:
                raise ValueError(f"nodes[{index}].address: one of several nodes must not be at a loopback, {address}.")
        if (twice := first_repeated(addresses)) is not None:
            index = len(addresses) - 1 - addresses[::-1].index(twice)
            raise ValueError(f"nodes[{index}].address: every node has its own address, but two have {twice}.")
        return self


def cluster_file_text(file: str | Path) -> str:
    """The cluster file, as YAML, that says what AutoDist's `file` does, the chief first. Raises `ClusterError`."""
    spec = read_checked(Path(file), "Resource file", ResourceSpec)
    nodes = sorted(spec.nodes, key=lambda node: not node.chief)
    comments = "".join(f"# {line}\n" for line in _comments(spec, nodes))
    entries = [_entry(node, f"node{index}") for index, node in enumerate(nodes)]
    return comments + yaml.safe_dump({"nodes": entries}, sort_keys=False, default_flow_style=None, width=1000)


def _comments(spec: ResourceSpec, nodes: list[ResourceNode]) -> Iterator[str]:
    yield "From an AutoDist resource_spec.yml, its chief first."
    if spec.ssh or any(node.ssh_config for node in nodes):
        yield "The ssh groups were left out: Ray logs in, by what its own cluster.yaml says."
    unknown = [node.address for node in nodes if node.network_bandwidth is None]
    if unknown:
        yield f"No network_bandwidth was given for {listed(unknown)}: left out, so it is assumed until measured."
    if any(node.cpus and node.gpus for node in nodes):
        yield "CPUs of nodes with GPUs were left out: one worker process drives all GPUs of a node."


def _entry(node: ResourceNode, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "address": node.address}
    gpus, workers = len(set(node.gpus)), len({0, *node.cpus})  # AutoDist gives every node a CPU 0
    if gpus:
        entry["gpus"] = gpus
    elif workers > 1:
        entry["workers"] = workers
    if node.network_bandwidth is not None:
        rate = f"{Decimal(str(node.network_bandwidth)).normalize():f}gbit"
        entry |= {"up": rate, "down": rate}
    return entry

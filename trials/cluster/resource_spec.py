"""Converts AutoDist's resource_spec.yml to a cluster file.

AutoDist's CPU devices are processes that hold variables and replicas, so they become `workers`; on nodes with GPUs they
are ignored, as in AutoDist. GPUs are counted. Entries without an equivalent, because Ray starts the processes, are
omitted with a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from autosync.spec import MOST_NODES, shorten_list
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
    """A node of AutoDist's file; `network_bandwidth` is in Gbit/s."""

    model_config = CHECKED

    address: Annotated[str, AfterValidator(_address)]
    gpus: list[Number] = Field(default_factory=list)
    cpus: list[Number] = Field(default_factory=list)
    chief: bool = False
    ssh_config: str | None = None
    network_bandwidth: float | None = Field(None, gt=0)


class ResourceSpec(BaseModel):
    """AutoDist's whole file."""

    model_config = CHECKED

    nodes: list[ResourceNode] = Field(min_length=1, max_length=MOST_NODES)
    ssh: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_chief(self) -> ResourceSpec:
        addresses = [node.address for node in self.nodes]
        chiefs = [node.address for node in self.nodes if node.chief]
        if len(self.nodes) == 1:
            return self
        if len(chiefs) != 1:
            stated = shorten_list(chiefs)
            raise ValueError(f"nodes: exactly one of several nodes must have `chief: true`, not {stated}.")
        for index, address in enumerate(addresses):
            if ip_address(address).is_loopback:
                raise ValueError(
                    f"nodes[{index}].address: with several nodes, an address must not be a loopback, {address}."
                )
        if (twice := first_repeated(addresses)) is not None:
            index = len(addresses) - 1 - addresses[::-1].index(twice)
            raise ValueError(f"nodes[{index}].address: every node has its own address, but two have {twice}.")
        return self


def cluster_file_text(file: str | Path) -> str:
    """Return AutoDist's `file` as the YAML text of a cluster file, the chief first. Raises `ClusterError`."""
    spec = read_checked(Path(file), "Resource file", ResourceSpec)
    nodes = sorted(spec.nodes, key=lambda node: not node.chief)
    comments = "".join(f"# {line}\n" for line in _comments(spec, nodes))
    entries = [_entry(node, f"node{index}") for index, node in enumerate(nodes)]
    return comments + yaml.safe_dump({"nodes": entries}, sort_keys=False, default_flow_style=None, width=1000)


def _comments(spec: ResourceSpec, nodes: list[ResourceNode]) -> Iterator[str]:
    yield "From an AutoDist resource_spec.yml, its chief first."
    if spec.ssh or any(node.ssh_config for node in nodes):
        yield "The ssh groups were omitted: Ray logs in, as its own cluster.yaml states."
    unknown = [node.address for node in nodes if node.network_bandwidth is None]
    if unknown:
        yield f"No network_bandwidth was given for {shorten_list(unknown)}, so it is assumed until measured."
    if any(node.cpus and node.gpus for node in nodes):
        yield "CPUs of nodes with GPUs were omitted: one worker process drives all GPUs of a node."


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

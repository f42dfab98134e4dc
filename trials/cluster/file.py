"""The cluster file: nodes, racks and links in YAML, for a real or an emulated cluster.

link: 1gbit                    # the default rate of every node, up and down
racks:
  left: {up: 400mbit, down: 400mbit}
  right: {up: 400mbit, down: 400mbit}
nodes:
  - {name: head, address: 10.0.0.1, cores: 8, gpus: 4, rack: left, down: 200mbit, latency: 50us}
  - {count: 3, cores: 2, rack: right}

Nodes may be paced (see `pace_entry`) by a `pace` of the node, of its rack, or of the file. Rates may change (see
`changes_entry`) if the cluster is emulated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema, model_validator

from autosync.errors import ClusterError, SpecError
from autosync.spec import MOST_DEVICES, MOST_NODES, ClusterSpec, Figure, Node, Pace, quote, shorten_list
from autosync.spec.codec import first_repeated
from autosync.words.commands import is_cluster_file
from trials.cluster.addresses import ipv4_address
from trials.cluster.changes_entry import ChangeEntry, Rate, check_changes, later_rates
from trials.cluster.checked_yaml import read_checked
from trials.cluster.pace_entry import CHECKED, PaceEntry
from trials.cluster.racks import ASSUMED_UPLINK, CORE, AttachedNode, Uplink, join_nodes, parse_emulation

LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
"""A pattern of the values that Ray accepts for a node's label."""


def _latency(value: Any) -> float:
    """Convert to microseconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms)", value) if isinstance(value, str) else None
    if not match or not float(match[1]) > 0:
        raise ValueError(f"a latency is written like 50us or 0.2ms and is above zero, not {quote(value)}.")
    return float(match[1]) * (1000 if match[2] == "ms" else 1)


def _label(value: str) -> str:
    if not re.fullmatch(LABEL, value):
        raise ValueError(f"a name is of letters, digits and inner dots and dashes, at most 63, not {quote(value)}.")
    return value


def _address(value: str) -> str:
    return ipv4_address(value, "an address is the IP address Ray knows the node by")


Latency = Annotated[
    float,
    BeforeValidator(_latency),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?(us|ms)$", "examples": ["50us", "0.2ms"]}),
]
Label = Annotated[str, AfterValidator(_label), Field(json_schema_extra={"pattern": f"^{LABEL}$"})]
Address = Annotated[str, AfterValidator(_address)]


class NodeEntry(BaseModel):
    """A node, or `count` nodes that are alike."""

    model_config = CHECKED

    name: Label | None = Field(None, description="Numbered when `count` is given. Left out: node0, node1, and so on.")
    count: int | None = Field(None, ge=1, le=MOST_NODES, description="How many nodes are like this one.")
    address: Address | None = Field(None, description="IP address; needed to find the node in a real cluster.")
    cores: float | None = Field(
        None,
        gt=0,
        description="Cores of an emulated node; Ray reports those of a real one. Left out: all of this machine's.",
    )
    gpus: int = Field(0, ge=0, le=MOST_DEVICES)
    workers: int = Field(1, ge=1, le=MOST_DEVICES, description="Worker processes; several only without GPUs.")
    rack: Label | None = Field(None, description="One of `racks`.")
    up: Rate | None = Field(None, description="Rate from the node to its switch. Left out: `link`.")
    down: Rate | None = Field(None, description="Rate from the switch to the node. Left out: `link`.")
    latency: Latency | None = Field(None, description="Between the node and its switch, each way.")
    pace: PaceEntry | None = Field(None, description="Duration of the node's passes. Left out: its rack's pace.")


class RackEntry(BaseModel):
    """The uplink of a rack to the core switch that joins the racks; all nodes of the rack share the uplink."""

    model_config = CHECKED

    up: Rate | None = Field(None, description="Rate from the rack to the core.")
    down: Rate | None = Field(None, description="Rate from the core to the rack.")
    latency: Latency | None = Field(None, description="Between the rack and the core, each way.")
    pace: PaceEntry | None = Field(
        None, description="Pace of its nodes, which have slow spells together. Left out: `pace`."
    )


class ClusterFile(BaseModel):
    """A cluster as stated in its file. Omitted rates are assumed, and not shaped when the cluster is emulated."""

    model_config = CHECKED

    link: Rate | None = Field(None, description="Rate up and down of every node without another rate.")
    pace: PaceEntry | None = Field(None, description="Pace of every node without a pace of the node or its rack.")
    racks: dict[Label, RackEntry] = Field(default_factory=dict, description="Racks by name, each a switch.")
    nodes: list[NodeEntry] = Field(min_length=1)
    changes: list[ChangeEntry] = Field(
        default_factory=list,
        description="Rates that links have later, in order of time; `emulate` carries it out.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> ClusterFile:
        _check_racks(self)
        _check_one_name_a_node(self)
        check_changes(self.changes, *self._link_owners)
        return self

    def cluster(self) -> ClusterSpec:
        """Return the cluster; figures of the file are stated, all others assumed. Raises `SpecError`."""
        later = later_rates(self.changes, self._link_owners[0])

        def uplink(name: str, entry: NodeEntry | RackEntry, rate: float | None) -> Uplink:
            return replace(_uplink(entry, rate), up_later=later.get((name, "up")), down_later=later.get((name, "down")))

        attached = [
            AttachedNode(_node(entry, name, self._pace(entry)), uplink(name, entry, self.link), entry.rack)
            for name, entry in _entries_by_name(self)
        ]
        return join_nodes(attached, {name: uplink(name, rack, None) for name, rack in self.racks.items()})

    @property
    def _link_owners(self) -> tuple[list[str], list[str]]:
        """The names of nodes and racks with a link.

        A single node has none, and neither has a single rack with all nodes.
        """
        names = [name for name, _ in _entries_by_name(self)]
        one_switch = len(self.racks) == 1 and all(entry.rack for entry in self.nodes)
        return names if len(names) > 1 else [], [] if one_switch else list(self.racks)

    def _pace(self, entry: NodeEntry) -> Pace | None:
        of_rack = self.racks[entry.rack].pace if entry.rack else None
        stated = entry.pace or of_rack or self.pace
        return None if stated is None else stated.pace((entry.rack or "") if stated is of_rack else "")


def read_cluster_file(file: str | Path) -> ClusterSpec:
    """Read the cluster of `file`. Raises `ClusterError` with the file, the key, the rule and the value."""
    document = read_checked(Path(file), "Cluster file", ClusterFile)
    try:
        return document.cluster()
    except SpecError as error:
        raise ClusterError(f"Cluster file {str(file)!r}: {error}") from None


def cluster_to_emulate(text: str) -> ClusterSpec:
    """Return the cluster named by `text`: a star such as 4x200mbit, or a cluster file. Raises `ClusterError`."""
    return read_cluster_file(text) if is_cluster_file(text) else parse_emulation(text)


def _check_racks(file: ClusterFile) -> None:
    if CORE in file.racks:
        raise ValueError(
            f"racks.{CORE}: the switch that joins the racks is called {CORE!r}; give the rack another name."
        )
    used = {entry.rack for entry in file.nodes}
    for index, entry in enumerate(file.nodes):
        if entry.rack is not None and entry.rack not in file.racks:
            known = f"there are {shorten_list(file.racks)}" if file.racks else "there are none"
            raise ValueError(f"nodes[{index}].rack: a rack is one of `racks` ({known}), not {quote(entry.rack)}.")
    for rack in file.racks:
        if rack not in used:
            raise ValueError(f"racks.{rack}: every rack has a node, but no node says `rack: {rack}`.")


def _check_one_name_a_node(file: ClusterFile) -> None:
    for index, entry in enumerate(file.nodes):
        if entry.address is not None and entry.count is not None:
            raise ValueError(f"nodes[{index}].address: an address is one node's, but `count` is {entry.count}.")
    count = sum(entry.count or 1 for entry in file.nodes)
    if count > MOST_NODES:
        raise ValueError(f"nodes: a cluster has at most {MOST_NODES} nodes, not {count}; state a smaller one.")
    names = [name for name, _ in _entries_by_name(file)]
    addresses = [entry.address for entry in file.nodes if entry.address is not None]
    for what, values in (("name", names), ("address", addresses)):
        repeated = first_repeated(values)
        if repeated is not None:
            raise ValueError(
                f"nodes: every node has its own {what}, but {values.count(repeated)} have {quote(repeated)}."
            )


def _entries_by_name(file: ClusterFile) -> Iterator[tuple[str, NodeEntry]]:
    """Yield the name and the entry of every node."""
    index = 0
    for entry in file.nodes:
        for number in range(entry.count or 1):
            if entry.name is None:
                yield f"node{index}", entry
            else:
                yield entry.name if entry.count is None else f"{entry.name}{number}", entry
            index += 1


def _node(entry: NodeEntry, name: str, pace: Pace | None) -> Node:
    cores = entry.cores if entry.cores is not None else float(os.cpu_count() or 1)
    return Node(name, entry.address or "", float(cores), entry.workers, entry.gpus, pace=pace)


def _uplink(entry: NodeEntry | RackEntry, rate: float | None) -> Uplink:
    def figure(value: float | None, default: Figure) -> Figure:
        return default if value is None else Figure(value, "stated")

    common = figure(rate, ASSUMED_UPLINK.up)
    return Uplink(
        figure(entry.up, common), figure(entry.down, common), figure(entry.latency, ASSUMED_UPLINK.latency_us)
    )

"""A node of a cluster, its devices and the cores that nodes may share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.pace import Pace
from autosync.spec.quoting import quoted

SOURCES = ("measured", "stated", "assumed")

MOST_NODES, MOST_DEVICES = 1024, 2048
"""The most nodes and devices of a cluster: 1024 with a worker process and a GPU each."""

LONGEST_NAME = 255

LEAST_CORES, MOST_CORES = 1e-3, 1e6
"""The fewest and the most cores of a node; an emulated one has a quota of them, which is written in microseconds."""

LEAST_FIGURE, MOST_FIGURE = 1e-12, 1e12
"""The least and the greatest figure: beyond, no machine is meant, and times overflow."""


@dataclass(frozen=True)
class Figure(Noun, what="A figure"):
    """A positive number that says where it comes from: measured here, stated by a person, or assumed."""

    value: float
    source: str

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise SpecError(f"A figure is {', '.join(SOURCES)}; {quoted(self.source)} is none of them.")
        if not (math.isfinite(self.value) and self.value > 0):
            raise SpecError(f"A figure must be a positive number, not {quoted(self.value)}.")
        if not LEAST_FIGURE <= self.value <= MOST_FIGURE:
            raise SpecError(f"A figure is from {LEAST_FIGURE:g} to {MOST_FIGURE:g}, not {self.value:g}.")


@dataclass(frozen=True, order=True)
class Device:
    """A processor that can hold variables or a replica. On a node, `cpu:k` is its k-th worker process."""

    node: str
    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}/{self.kind}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """The device named `text`, such as `node0/cpu:1`. Raises `SpecError`."""
        node, slash, rest = text.rpartition("/")
        kind, colon, index = rest.partition(":")
        if not (node and slash and colon and kind in ("cpu", "gpu") and index.isdecimal() and len(index) < 10):
            raise SpecError(f"A device is named like 'node0/cpu:0' or 'node0/gpu:3', not {quoted(text)}.")
        return cls(node, kind, int(index))


@dataclass(frozen=True)
class SharedCores(Noun, what="Shared cores"):
    """The processors of one real machine, `count` of them, that nodes share which only play machines."""

    machine: str
    count: float

    def __post_init__(self) -> None:
        if not self.machine or not (math.isfinite(self.count) and self.count > 0):
            raise SpecError(
                f"Nodes share a positive number of cores of a machine with a name, not {quoted(self.count)} of "
                f"{quoted(self.machine)}."
            )


@dataclass(frozen=True)
class Node(Noun, what="A node"):
    """A machine: `workers` worker processes (one, or several on a CPU machine that plays a cluster) and its GPUs.

    `shared_cores` are set where other nodes use the same processors: then all of them together have no more than those.

    Two figures are known once probed: `copy_gbit_per_s`, at which a worker copies arrays in memory, and `message_us`,
    what one more message between two processes takes when many are under way.

    A node with a `pace` plays one whose passes take as long as that says.
    """

    name: str
    address: str
    cores: float
    workers: int = 1
    gpus: int = 0
    copy_gbit_per_s: Figure | None = None
    message_us: Figure | None = None
    shared_cores: SharedCores | None = None
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if self.workers < 1 or self.gpus < 0 or not 0 < self.cores < math.inf:
            raise SpecError(f"Node {quoted(self.name)} needs a worker and a positive number of cores.")
        if not LEAST_CORES <= self.cores <= MOST_CORES:
            raise SpecError(
                f"Node {quoted(self.name)} has {LEAST_CORES:g} to {MOST_CORES:g} cores, not {self.cores:g}."
            )
        if max(self.workers, self.gpus) > MOST_DEVICES:
            raise SpecError(
                f"Node {quoted(self.name)} has at most {MOST_DEVICES} workers and as many GPUs, not "
                f"{quoted(self.workers)} and {quoted(self.gpus)}."
            )
        if self.gpus and self.workers > 1:
            raise SpecError(
                f"Node {quoted(self.name)} has GPUs, so one worker process drives them all; workers must be 1."
            )
        if self.gpus and self.pace:
            raise SpecError(
                f"Node {quoted(self.name)} has GPUs, and only passes on processors are paced; leave out gpus or pace."
            )
        if not self.name or "/" in self.name:
            raise SpecError(f"A node's name must not be empty or hold a slash, but is {quoted(self.name)}.")
        if max(len(self.name), len(self.address)) > LONGEST_NAME:
            raise SpecError(
                f"A node's name and address have at most {LONGEST_NAME} characters, but are {quoted(self.name)} and "
                f"{quoted(self.address)}."
            )

    @property
    def machine(self) -> tuple[float, int, Pace | None]:
        """What a machine must have to do this node's work in the same time; nodes that are alike have it in common."""
        return self.cores, self.gpus, self.pace

    def on(self, machine: Node) -> Node:
        """This node with all that the machine of another, which was found in its place, has.

        A pace that was stated here holds; else that which the machine was started with does.
        """
        found = replace(self, cores=machine.cores, gpus=machine.gpus, shared_cores=machine.shared_cores)
        return replace(found, pace=self.pace or machine.pace)

    @property
    def cpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "cpu", index) for index in range(self.workers))

    @property
    def gpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "gpu", index) for index in range(self.gpus))

"""Nodes of a cluster, their devices and the cores that nodes may share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autosync.errors import SpecError
from autosync.spec.codec import Noun
from autosync.spec.pace import Pace
from autosync.spec.quoting import quote

SOURCES = ("measured", "stated", "assumed")

MOST_NODES, MOST_DEVICES = 1024, 2048
"""The most nodes and devices of a cluster: 1024 with a worker process and a GPU each."""

LONGEST_NAME = 255

LEAST_CORES, MOST_CORES = 1e-3, 1e6
"""The fewest and the most cores of a node. An emulated node has a quota of cores, which is written in microseconds."""

LEAST_FIGURE, MOST_FIGURE = 1e-12, 1e12
"""The least and the greatest figure. No machine has others, and times would overflow."""


@dataclass(frozen=True)
class Figure(Noun, what="A figure"):
    """A positive number that says where it comes from: measured here, stated by a person, or assumed."""

    value: float
    source: str

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise SpecError(f"A figure is {', '.join(SOURCES)}; {quote(self.source)} is none of them.")
        if not (math.isfinite(self.value) and self.value > 0):
            raise SpecError(f"A figure must be a positive number, not {quote(self.value)}.")
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
            raise SpecError(f"A device is named like 'node0/cpu:0' or 'node0/gpu:3', not {quote(text)}.")
        return cls(node, kind, int(index))


@dataclass(frozen=True)
class SharedCores(Noun, what="Shared cores"):
    """`count` processors of a real machine, which several emulated nodes share."""

    machine: str
    count: float

    def __post_init__(self) -> None:
        if not self.machine or not (math.isfinite(self.count) and self.count > 0):
            raise SpecError(
                f"Nodes share a positive number of cores of a machine with a name, not {quote(self.count)} of "
                f"{quote(self.machine)}."
            )


@dataclass(frozen=True)
class Node(Noun, what="A node"):
    """A machine with its worker processes and its GPUs."""

    name: str
    address: str
    cores: float
    workers: int = 1
    """Number of worker processes: one, or several on a CPU machine that emulates a cluster."""
    gpus: int = 0
    copy_gbit_per_s: Figure | None = None
    """Rate at which a worker copies arrays in memory; None until probed."""
    message_us: Figure | None = None
    """Microseconds of an additional message between two processes while many are in flight; None until probed."""
    shared_cores: SharedCores | None = None
    """Processors that this node shares with others: together they have no more cores than these. None if not shared."""
    pace: Pace | None = None
    """Durations that the node's passes are made to take; None if passes take their real time."""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.gpus < 0 or not 0 < self.cores < math.inf:
            raise SpecError(f"Node {quote(self.name)} needs a worker and a positive number of cores.")
        if not LEAST_CORES <= self.cores <= MOST_CORES:
            raise SpecError(f"Node {quote(self.name)} has {LEAST_CORES:g} to {MOST_CORES:g} cores, not {self.cores:g}.")
        if max(self.workers, self.gpus) > MOST_DEVICES:
            raise SpecError(
                f"Node {quote(self.name)} has at most {MOST_DEVICES} workers and as many GPUs, not "
                f"{quote(self.workers)} and {quote(self.gpus)}."
            )
        if self.gpus and self.workers > 1:
            raise SpecError(
                f"Node {quote(self.name)} has GPUs, so one worker process drives them all; workers must be 1."
            )
        if self.gpus and self.pace:
            raise SpecError(
                f"Node {quote(self.name)} has GPUs, and only passes on processors are paced; leave out gpus or pace."
            )
        if not self.name or "/" in self.name:
            raise SpecError(f"A node's name must not be empty or hold a slash, but is {quote(self.name)}.")
        if max(len(self.name), len(self.address)) > LONGEST_NAME:
            raise SpecError(
                f"A node's name and address have at most {LONGEST_NAME} characters, but are {quote(self.name)} and "
                f"{quote(self.address)}."
            )

    @property
    def machine(self) -> tuple[float, int, Pace | None]:
        """The properties that decide how fast a machine does this node's work; equal for nodes that are alike."""
        return self.cores, self.gpus, self.pace

    def on(self, machine: Node) -> Node:
        """This node with the cores, GPUs and pace of `machine`, the actual machine that was discovered for it.

        A pace that this node states takes precedence over the pace that the machine was started with.
        """
        actual = replace(self, cores=machine.cores, gpus=machine.gpus, shared_cores=machine.shared_cores)
        return replace(actual, pace=self.pace or machine.pace)

    @property
    def cpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "cpu", index) for index in range(self.workers))

    @property
    def gpu_devices(self) -> tuple[Device, ...]:
        return tuple(Device(self.name, "gpu", index) for index in range(self.gpus))

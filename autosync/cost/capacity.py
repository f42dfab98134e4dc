"""Compute capacity of machines, the cost of a replica's passes, and when in the backward pass gradients are ready."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import MESSAGE_ALONE, ReplayCoefficients
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, Device, DeviceProfile, ModelProfile, ModelSpec, Pace, SharedCores
from autosync.spec.pace import releases

SECONDS_PER_FLOP = 1e-10
"""Seconds per flop of the reference core that converts a profiled pass to flops. Its speed does not matter once
coefficients are fitted to records."""


def ready_fractions(model: ModelSpec) -> dict[str, float]:
    """The fraction of the backward pass after which each variable's gradient is ready, from 0 to 1.

    The backward pass visits the operators in reverse; an operator's time is proportional to its flops. A gradient is
    ready when the last operator that reads the variable has been visited. The order of `ready_order` always holds.
    Without operators, gradients become ready at equal intervals. For a profiled model, the profile has the fractions.
    """
    if model.profile is not None:
        return dict(model.profile.ready)
    ordered = sorted(model.variables, key=lambda variable: variable.ready_order)
    if not model.flops > 0:
        return {variable.name: (variable.ready_order + 1) / len(ordered) for variable in ordered}
    visited: dict[str, float] = {}
    done = 0.0
    for operator in reversed(model.operators):
        done += operator.flops
        for name in operator.variables:
            visited[name] = min(1.0, done / model.flops)
    fractions, latest = {}, 0.0
    for variable in ordered:
        latest = max(latest, visited.get(variable.name, 0.0))
        fractions[variable.name] = latest
    return fractions


def read_fractions(profile: ModelProfile | None, ready: Mapping[str, float]) -> Mapping[str, float]:
    """The fraction of the forward pass before each variable is first read; if not measured, mirrored from `ready`."""
    if profile is not None and profile.read is not None:
        return profile.read
    return {name: 1.0 - fraction for name, fraction in ready.items()}


RELEASE_CORE_SECONDS = 0.26e-3
"""Core-seconds of one release of gradients in a paced pass, between worker processes (`bench_pace alone`).

A release starts with cold caches and reads recorded gradients. With all replicas in one process it takes 55
microseconds.
"""

DRAWN_STEPS = 64
"""The number of steps for which paced passes are drawn to estimate their duration."""


@dataclass(frozen=True)
class PacedPasses:
    """A step's passes if they are paced: a delay that keeps no core busy, except for releases and held computation."""

    seconds: float
    """Seconds of the slowest replica's passes in the median step."""

    least_seconds: float
    """Seconds of the slowest replica's passes in the shortest drawn step."""

    earliest_seconds: float
    """Seconds of the fastest replica's passes in any drawn step."""

    medians: tuple[float, ...]
    """Seconds of each replica's passes in its median step."""

    forward: float
    """The share of the forward pass."""

    core_seconds: float
    """Core-seconds that each replica spends nevertheless."""

    release_seconds: float
    """The core-seconds among `core_seconds` that are spent on releases."""

    ready: Mapping[str, float]
    """The fraction of the backward pass at which each variable's gradient is released."""

    read: Mapping[str, float]
    """The fraction of the forward pass before each variable is first read."""


def draw_passes(model: ModelSpec, cluster: ClusterSpec, replicas: Collection[str]) -> PacedPasses | None:
    """Draw the passes of `replicas` on a paced cluster; None if passes are real or the model has no profile."""
    profile = model.pace_profile
    if not cluster.paced or profile is None:
        return None
    paces = paces_of(cluster, replicas)
    drawn = np.array([[pace.seconds(profile, 0, step, name) for name, pace in paces] for step in range(DRAWN_STEPS)])
    slowest = drawn.max(1)
    plan, total = releases(profile), profile.forward_seconds + profile.backward_seconds
    forward, released = profile.forward_seconds / total, len(plan) * RELEASE_CORE_SECONDS
    return PacedPasses(
        float(np.median(slowest)),
        float(slowest.min()),
        float(drawn.min()),
        tuple(np.median(drawn, axis=0).tolist()),
        forward,
        released + (_computing_seconds(model) if cluster.numbers == "held" else 0.0),
        released,
        {name: max(0.0, (time - forward) / (1 - forward)) for time, names in plan for name in names},
        read_fractions(profile, profile.ready),
    )


def paces_of(cluster: ClusterSpec, replicas: Collection[str]) -> list[tuple[str, Pace]]:
    """(name, pace) of the `replicas` whose nodes are paced."""
    return [(name, pace) for name in replicas if (pace := cluster.node(Device.parse(name).node).pace) is not None]


def core_flops(model: ModelSpec, paced: PacedPasses | None = None) -> float:
    """Forward flops of one replica's step on a CPU; for profiled or paced passes, the flops that take equally long."""
    if paced is not None:
        return paced.core_seconds / 3 / SECONDS_PER_FLOP
    return model.flops if model.profile is None else _computing_seconds(model) / 3 / SECONDS_PER_FLOP


def _computing_seconds(model: ModelSpec) -> float:
    """Core-seconds of a replica's passes if they are computed on a CPU, by the model's profile if it has one."""
    if model.profile is None:
        return 3 * model.flops * SECONDS_PER_FLOP
    return model.profile.forward_seconds + model.profile.backward_seconds


def nodes_by_machine(cluster: ClusterSpec) -> dict[SharedCores, list[int]]:
    """The machines on whose cores nodes compute (shared, or a node's own), with the numbers of their nodes."""
    machines: dict[SharedCores, list[int]] = {}
    for number, node in enumerate(cluster.nodes):
        machines.setdefault(node.shared_cores or SharedCores(node.name, node.cores), []).append(number)
    return machines


def replicas_on_cores(cluster: ClusterSpec, replicas: Collection[str]) -> npt.NDArray[np.float64]:
    """The number of `replicas` on the cores of each node, (nodes,)."""
    held = frozenset(replicas)
    return np.array([float(sum(str(device) in held for device in node.cpu_devices)) for node in cluster.nodes])


def fair_cores(cluster: ClusterSpec) -> npt.NDArray[np.float64]:
    """Cores (nodes,): a node's own cores, or its max-min fair part of a shared machine if that is less.

    Nodes with fewer cores than an even part leave the rest to the other nodes (Bertsekas and Gallager, Data Networks,
    section 6.5.2, for one resource).
    """
    cores = np.array([node.cores for node in cluster.nodes])
    for machine, numbers in nodes_by_machine(cluster).items():
        left = machine.count
        for done, number in enumerate(sorted(numbers, key=lambda number: cores[number])):
            cores[number] = min(cores[number], left / (len(numbers) - done))
            left -= cores[number]
    return cores


@dataclass(frozen=True, eq=False)
class PassCosts:
    """The cost of one replica's forward and backward pass: on a CPU (by the profile, if any), on a GPU, or paced."""

    model: ModelSpec

    paced: PacedPasses | None = None
    """The paced passes; None if passes are real."""

    on_gpus: bool = False
    """Whether replicas are GPUs. On GPUs the model's device profile, if any, has the duration of passes."""

    @classmethod
    def of(cls, model: ModelSpec, cluster: ClusterSpec, replicas: Collection[str]) -> PassCosts:
        """The passes of `replicas` on a cluster."""
        on_gpus = any("/gpu:" in name for name in replicas)
        return cls(model, draw_passes(model, cluster, replicas), on_gpus)

    @cached_property
    def ready(self) -> Mapping[str, float]:
        """The fraction of the backward pass after which each variable's gradient is ready."""
        if self.paced is not None:
            return self.paced.ready
        return ready_fractions(self.model) if self.of_gpu is None else self.of_gpu.as_fractions.ready

    @cached_property
    def read(self) -> Mapping[str, float]:
        """The fraction of the forward pass before each variable is first read."""
        if self.paced is not None:
            return self.paced.read
        return read_fractions(self.model.profile if self.of_gpu is None else self.of_gpu.as_fractions, self.ready)

    @property
    def of_gpu(self) -> DeviceProfile | None:
        """The measured GPU profile; None if passes run on CPUs or no profile exists."""
        return self.model.device_profile if self.on_gpus else None

    @cached_property
    def _flops(self) -> float:
        return self.model.flops

    def core_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Core-seconds of both passes on a node's cores."""
        profile, computing = self.model.profile, 1.0 if self.computes else 0.0
        released = 0.0 if self.paced is None else self.paced.release_seconds
        if profile is None:
            forward = self._flops * coefficients.core_seconds_per_flop * computing
            return forward, 2 * forward + released
        scale = coefficients.profile_scale * computing
        return profile.forward_seconds * scale, profile.backward_seconds * scale + released

    @property
    def computes(self) -> bool:
        """Whether gradients are computed (even if they are then held until their release) rather than replayed."""
        return self.paced is None or self.paced.core_seconds > self.paced.release_seconds

    def overlap(self, coefficients: ReplayCoefficients) -> float:
        """How early gradients are sent, like `ReplayCoefficients.overlap`; paced gradients exactly at their release."""
        return coefficients.overlap if self.paced is None else 1.0

    def sending_coefficients(self, coefficients: ReplayCoefficients) -> ReplayCoefficients:
        """The coefficients of sending and adding: in parallel with computed passes, or while processors only wait."""
        if self.computes:
            return coefficients
        return replace(coefficients, core_seconds_per_message=MESSAGE_ALONE * coefficients.core_seconds_per_message)

    def delay_seconds(self, coefficients: ReplayCoefficients) -> tuple[float, float]:
        """Seconds of the forward and the backward pass if they keep no core busy: on a GPU, or paced."""
        if self.paced is not None:
            forward = self.paced.seconds * self.paced.forward
            return forward, self.paced.seconds - forward
        if self.of_gpu is not None:
            return self.of_gpu.forward_seconds, self.of_gpu.backward_seconds
        forward = self._flops * coefficients.gpu_seconds_per_flop
        return forward, 2 * forward


@dataclass(frozen=True)
class ResourceColumns:
    """The column of each resource of a cluster: links, nodes' cores, servers, then shared machines' cores.

    A server's column is the single thread that adds and updates. The same work also counts for its node's cores.
    """

    cluster: ClusterSpec

    @cached_property
    def links(self) -> slice:
        return slice(0, len(self.cluster.links))

    @cached_property
    def nodes(self) -> slice:
        return slice(self.links.stop, self.links.stop + len(self.cluster.nodes))

    @cached_property
    def servers(self) -> slice:
        return slice(self.nodes.stop, self.nodes.stop + len(self.cluster.server_devices))

    @cached_property
    def shared(self) -> slice:
        return slice(self.servers.stop, self.servers.stop + len(self.machines))

    @property
    def count(self) -> int:
        return int(self.shared.stop)

    @cached_property
    def machines(self) -> dict[SharedCores, FloatArray]:
        """The real machines that nodes share, with 1 for the nodes on the machine and 0 for all others, (nodes,)."""
        shared = [node.shared_cores for node in self.cluster.nodes]
        return {
            machine: np.array([float(machine == cores) for cores in shared])
            for machine in dict.fromkeys(shared)
            if machine is not None
        }

    @cached_property
    def link_column(self) -> dict[int, int]:
        """The column of each link of the cluster, by the link's identity."""
        return {id(link): number for number, link in enumerate(self.cluster.links)}

    @cached_property
    def node_column(self) -> dict[str, int]:
        return {node.name: self.nodes.start + number for number, node in enumerate(self.cluster.nodes)}

    @cached_property
    def server_column(self) -> dict[str, int]:
        return {str(device): self.servers.start + number for number, device in enumerate(self.cluster.server_devices)}

    @cached_property
    def node_of(self) -> dict[str, str]:
        """The node of every device."""
        return {
            str(device): node.name for node in self.cluster.nodes for device in (*node.cpu_devices, *node.gpu_devices)
        }

    @cached_property
    def bytes_per_second(self) -> FloatArray:
        """Bytes a second of the links."""
        return np.array([link.bytes_per_second for link in self.cluster.links])

    @cached_property
    def cores(self) -> FloatArray:
        """Cores of the nodes."""
        return np.array([node.cores for node in self.cluster.nodes])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each column's resource."""
        links = (f"link {link.source} > {link.target}" for link in self.cluster.links)
        nodes = (f"cores of {node.name}" for node in self.cluster.nodes)
        servers = (f"server {device}" for device in self.cluster.server_devices)
        shared = (f"cores of machine {machine.machine}" for machine in self.machines)
        return (*links, *nodes, *servers, *shared)

    def on_machines(self, node_seconds: FloatArray) -> FloatArray:
        """Convert seconds of nodes' cores, (..., nodes), to seconds of shared machines' cores, (..., machines)."""
        core_seconds, machines = node_seconds * self.cores, self.machines.items()
        seconds = np.zeros((*core_seconds.shape[:-1], len(machines)))
        for column, (machine, nodes) in enumerate(machines):
            seconds[..., column] = core_seconds @ nodes / machine.count
        return seconds

"""Members of an exchange, with their devices and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final, overload

from autosync.engine.tensorflow.placement import Placement
from autosync.layout.topology import Topology


@dataclass(frozen=True)
class Member:
    """One replica or server in an exchange.

    `device` is TensorFlow's name of its device, `node` the cluster's name of its node, and `gateway` TensorFlow's name
    of the node's first CPU.
    """

    device: str
    node: str
    gateway: str

    @property
    def host(self) -> str:
        """The CPU in the process of `device`: `device` itself, or for a GPU the first CPU of its node."""
        return self.gateway if "GPU" in self.device else self.device

    @classmethod
    def of(cls, placement: Placement, device: str) -> Member:
        """Return the member on the device that the cluster calls `device`."""
        node = placement.node(device)
        return cls(placement.name(device), node, placement.gateway(node))


@final
@dataclass(frozen=True)
class Members(Sequence[Member]):
    """The members of an exchange, in the order of their gradients, and their topology."""

    members: tuple[Member, ...]
    topology: Topology

    @classmethod
    def of(cls, placement: Placement, devices: Sequence[str]) -> Members:
        """Return the members on `devices`, which are the cluster's names."""
        members = tuple(Member.of(placement, device) for device in devices)
        return cls(members, Topology(placement.cluster, tuple(devices)))

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    @overload
    def __getitem__(self, index: int) -> Member: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Member, ...]: ...

    def __getitem__(self, index: int | slice) -> Member | tuple[Member, ...]:
        return self.members[index]

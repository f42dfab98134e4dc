"""Members of an exchange: the device that each computes on, and where that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final, overload

from autosync.engine.placement import Placement
from autosync.layout.topology import Topology


@dataclass(frozen=True)
class Member:
    """`device` is TensorFlow's name, `node` the cluster's, `gateway` TensorFlow's name for the node's first CPU."""

    device: str
    node: str
    gateway: str

    @property
    def host(self) -> str:
        """The CPU beside `device`: itself, or for a GPU the first CPU of its node, which is in the same process."""
        return self.gateway if "GPU" in self.device else self.device

    @classmethod
    def of(cls, placement: Placement, device: str) -> Member:
        """The member on a device that the cluster calls `device`."""
        node = placement.node(device)
        return cls(placement.name(device), node, placement.gateway(node))


@final
@dataclass(frozen=True)
class Members(Sequence[Member]):
    """All who exchange, in the order of their gradients, and where they are."""

    each: tuple[Member, ...]
    topology: Topology

    @classmethod
    def of(cls, placement: Placement, devices: Sequence[str]) -> Members:
        """The members on devices that the cluster calls so."""
        each = tuple(Member.of(placement, device) for device in devices)
        return cls(each, Topology(placement.cluster, tuple(devices)))

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.each)

    @overload
    def __getitem__(self, index: int) -> Member: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Member, ...]: ...

    def __getitem__(self, index: int | slice) -> Member | tuple[Member, ...]:
        return self.each[index]

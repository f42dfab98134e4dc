"""A member of an exchange: the device it computes on, and the node that is on."""

from __future__ import annotations

from dataclasses import dataclass

from autosync.engine.placement import Placement


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

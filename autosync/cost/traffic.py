"""Bytes and messages over each link, and bytes reduced and updated on each server, in one step of a strategy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.loads import loads_by_replicas
from autosync.spec import ClusterSpec, ModelSpec, Strategy

__all__ = ["Traffic", "traffic"]


@dataclass(frozen=True, eq=False)
class Traffic:
    """One step's traffic, all float64.

    `bytes` and `messages` (links,) are aligned with `cluster.links`. `reduced_bytes`, the gradients each server reads
    to add them, and `updated_bytes`, the values and slots it writes, are (servers,), with `cluster.server_devices`.
    """

    bytes: npt.NDArray[np.float64]
    messages: npt.NDArray[np.float64]
    reduced_bytes: npt.NDArray[np.float64]
    updated_bytes: npt.NDArray[np.float64]


def traffic(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Traffic:
    """The traffic of one step. Raises `SpecError` when the strategy does not fit the model and the cluster."""
    _, _, loads = next(loads_by_replicas(model, cluster, [strategy]))
    at = loads.tables.columns
    return Traffic(
        loads.total(at.link_bytes)[0],
        loads.total(at.link_messages)[0],
        loads.total(at.server_reduced_bytes)[0],
        loads.total(at.server_updated_bytes)[0],
    )

"""The means of compressed gradients in plain NumPy, for all shards of a strategy; needs no framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.core.right_factor import first_right_factor
from autosync.layout.fusion import Layout, as_ready
from autosync.layout.shards import Shard
from autosync.spec import ModelSpec, ParameterServer, PowerSGD, Strategy, TopK
from tests.contracts.compression_models import (
    Model,
    OwnTopK,
    PowerSGDWithAllReduce,
    PowerSGDWithServer,
    SharedTopK,
    Uncompressed,
)

__all__ = ["Unit", "means_of", "units_of"]

Arrays = dict[str, npt.NDArray[Any]]

Unit = tuple[tuple[Shard, ...], Model]


def units_of(strategy: Strategy, model: ModelSpec) -> list[Unit]:
    """Return the groups of shards that are compressed together, with their models. PowerSGD treats matrices singly."""
    layout, units = Layout.of(strategy, model), []
    for group in [*as_ready(layout.buckets), *((shard,) for shard in layout.alone)]:
        compressor = group[0].synchronizer.compressor
        together = [(shard,) for shard in group] if isinstance(compressor, PowerSGD) else [group]
        units += [(gradient, _model(gradient, len(strategy.replicas))) for gradient in together]
    return units


def _model(shards: Sequence[Shard], replicas: int) -> Model:
    first = shards[0]
    compressor, dtype = first.synchronizer.compressor, first.variable.dtype
    if isinstance(compressor, TopK):
        elements = sum(shard.elements for shard in shards)
        kept = compressor.kept(elements)
        if compressor.indices == "own":
            return OwnTopK(replicas, elements, kept, dtype)
        return SharedTopK(replicas, elements, kept, dtype, compressor.indices)
    assert isinstance(compressor, PowerSGD)
    shape = compressor.matrix(first.shape)
    if shape is None:
        return Uncompressed()
    on_server = isinstance(first.synchronizer, ParameterServer)
    return (PowerSGDWithServer if on_server else PowerSGDWithAllReduce)(
        replicas, shape, first_right_factor(first.slice, compressor)
    )


def means_of(units: Sequence[Unit], gradients: Sequence[Arrays]) -> Arrays:
    """Return the mean gradient of every variable over all replicas."""
    means = {name: np.zeros_like(gradient) for name, gradient in gradients[0].items()}
    for shards, model in units:
        flat = [
            np.concatenate([np.ravel(gradient[s.variable.name][_piece(s)]) for s in shards]) for gradient in gradients
        ]
        mean, begin = model.mean(flat), 0
        assert mean.dtype == flat[0].dtype
        for shard in shards:
            part = mean[begin : begin + shard.elements].reshape(shard.shape)
            means[shard.variable.name][_piece(shard)] = part
            begin += shard.elements
    return means


def _piece(shard: Shard) -> Any:
    if not shard.shape:
        return ...
    return (*[slice(None)] * shard.slice.axis, slice(shard.slice.start, shard.slice.start + shard.slice.size))

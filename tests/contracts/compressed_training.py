"""Whole training runs with compressed gradients in plain NumPy.

The gradients come from a plain tape at the run's own weights; nothing else is TensorFlow's, nothing the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from autosync.engine.sync.thin_factors import first_right_factor
from autosync.layout.shards import Shard
from autosync.layout.together import Layout, as_ready
from autosync.spec import ModelSpec, ParameterServer, PowerSGD, Strategy, TopK
from tests.contracts.compression_models import (
    Model,
    OwnTopK,
    PowerSGDWithAllReduce,
    PowerSGDWithServer,
    SharedTopK,
    Uncompressed,
)
from tests.contracts.parity import Reference
from tests.contracts.tasks import build

__all__ = ["LEARNING_RATE", "MOMENTUM", "Run", "backward", "compressed_reference"]

MOMENTUM = {"SGD": 0.0, "momentum": float(np.float32(0.9))}  # Keras keeps both in float32
LEARNING_RATE = float(np.float32(0.1))

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Run:
    """What is trained: a task of `tasks`, SGD or momentum, for so many steps.

    `weights` are what each replica's loss and gradient count, where batches differ in size.
    """

    task: str
    optimizer: str
    steps: int = 20
    weights: tuple[float, ...] | None = None


@cache
def backward(task_name: str) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """A task, its batch function and its loss and gradients at given weights."""
    task = build(task_name, None)
    structure = task.batch(tf.constant([0, 0], tf.int32))
    fixed = [each.value for each in task.model.non_trainable_variables]

    @tf.function(autograph=False)
    def gradients(values: list[Any], batch: Sequence[Any]) -> tuple[Any, list[Any]]:
        inputs, targets = tf.nest.pack_sequence_as(structure, list(batch))
        with tf.GradientTape() as tape, tf.name_scope("forward"):  # a layer may be called `_scale`
            tape.watch(values)
            outputs, _ = task.model.stateless_call(values, fixed, inputs, training=True)
            loss = task.loss(targets, outputs)
        return loss, tape.gradient(loss, values)

    return task, tf.function(lambda seed: tf.nest.flatten(task.batch(seed)), autograph=False), gradients


def compressed_reference(run: Run, model: ModelSpec, strategy: Strategy) -> Reference:
    """What `run` gives in NumPy under `strategy`."""
    task, make, gradients_at = backward(run.task)
    values = {each.path: np.array(each.numpy()) for each in task.model.trainable_variables}
    velocities = {name: np.zeros_like(each) for name, each in values.items()}
    replicas = range(len(strategy.replicas))
    counts = run.weights or [1.0 for _ in replicas]
    units = _units(strategy, model)
    batches, losses = [], []
    for step in range(run.steps):
        of_step = tuple(tuple(make(tf.constant([step, replica], tf.int32))) for replica in replicas)
        given = [tf.constant(each) for each in values.values()]
        found = [gradients_at(given, batch) for batch in of_step]
        gradients = [
            {name: each.numpy() * counts[replica] for name, each in zip(values, of_replica, strict=True)}
            for replica, (_, of_replica) in enumerate(found)
        ]
        for name, mean in _means(units, gradients).items():
            velocities[name] = MOMENTUM[run.optimizer] * velocities[name] - LEARNING_RATE * mean
            values[name] = values[name] + velocities[name]
        batches.append(of_step)
        losses.append(float(np.mean([float(loss) * count for (loss, _), count in zip(found, counts, strict=True)])))
    return Reference(tuple(batches), values, tuple(losses))


Unit = tuple[tuple[Shard, ...], Model]


def _units(strategy: Strategy, model: ModelSpec) -> list[Unit]:
    """What is compressed together, with its model. In PowerSGD every matrix stands for itself."""
    layout, units = Layout.of(strategy, model), []
    for group in [*as_ready(layout.buckets), *((shard,) for shard in layout.alone)]:
        compressor = group[0].synchronizer.compressor
        together = [(shard,) for shard in group] if isinstance(compressor, PowerSGD) else [group]
        units += [(each, _model(each, len(strategy.replicas))) for each in together]
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
        replicas, shape, first_right_factor(first, compressor)
    )


def _means(units: Sequence[Unit], gradients: Sequence[Arrays]) -> Arrays:
    """The mean gradient of every variable, from those of all replicas."""
    means = {name: np.zeros_like(each) for name, each in gradients[0].items()}
    for shards, model in units:
        flat = [np.concatenate([np.ravel(each[s.variable.name][_piece(s)]) for s in shards]) for each in gradients]
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

"""Whole training runs with compressed gradients in plain NumPy.

The gradients come from a plain tape at the run's own weights. Everything else uses neither TensorFlow nor the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.spec import ModelSpec, Strategy
from tests.contracts.compressed_means import means_of, units_of
from tests.contracts.parity import Reference
from tests.contracts.tasks import build

__all__ = ["LEARNING_RATE", "MOMENTUM", "Run", "backward", "compressed_reference"]

MOMENTUM = {"SGD": 0.0, "momentum": float(np.float32(0.9))}  # Keras stores both in float32
LEARNING_RATE = float(np.float32(0.1))


@dataclass(frozen=True)
class Run:
    """A training run: a task of `tasks`, SGD or momentum, and a number of steps.

    `weights` are the weights of the replicas' losses and gradients if batches differ in size.
    """

    task: str
    optimizer: str
    steps: int = 20
    weights: tuple[float, ...] | None = None


@cache
def backward(task_name: str) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
    """A task, its batch function, and a function of its loss and gradients at given weights."""
    task = build(task_name, None)
    structure = task.batch(tf.constant([0, 0], tf.int32))
    fixed = [variable.value for variable in task.model.non_trainable_variables]

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
    """Train `run` in NumPy under `strategy`; return the final values and losses."""
    task, make, gradients_at = backward(run.task)
    values = {variable.path: np.array(variable.numpy()) for variable in task.model.trainable_variables}
    velocities = {name: np.zeros_like(value) for name, value in values.items()}
    replicas = range(len(strategy.replicas))
    counts = run.weights or [1.0 for _ in replicas]
    units = units_of(strategy, model)
    batches, losses = [], []
    for step in range(run.steps):
        of_step = tuple(tuple(make(tf.constant([step, replica], tf.int32))) for replica in replicas)
        given = [tf.constant(value) for value in values.values()]
        found = [gradients_at(given, batch) for batch in of_step]
        gradients = [
            {name: gradient.numpy() * counts[replica] for name, gradient in zip(values, of_replica, strict=True)}
            for replica, (_, of_replica) in enumerate(found)
        ]
        for name, mean in means_of(units, gradients).items():
            velocities[name] = MOMENTUM[run.optimizer] * velocities[name] - LEARNING_RATE * mean
            values[name] = values[name] + velocities[name]
        batches.append(of_step)
        losses.append(float(np.mean([float(loss) * count for (loss, _), count in zip(found, counts, strict=True)])))
    return Reference(tuple(batches), values, tuple(losses))

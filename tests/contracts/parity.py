"""One-process training to compare with, and the comparison itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.capturing import capture
from autosync.engine.placement import Placement
from autosync.engine.step.realize import Session, Step
from autosync.spec import ClusterSpec
from tests.contracts.tasks import MORE_OPTIMIZERS, OPTIMIZERS, OVER_ALL_GRADIENTS, build

__all__ = [
    "BOUNDS",
    "ROUNDED_BOUNDS",
    "Parity",
    "Reference",
    "captured_task",
    "reference",
    "session_on",
    "trained_alike",
]

STEPS = 4

BOUNDS = dict.fromkeys([*OPTIMIZERS, *MORE_OPTIMIZERS, *OVER_ALL_GRADIENTS], 1e-5)
"""Largest max|a - b| / max|b| allowed for any variable after `STEPS` steps.

SGD and momentum are linear in the gradient, so a change in the order of summing stays a rounding error: 6e-8 of the
largest term, times the square root of 20 to 100 terms.

Adam divides each element's gradient by sqrt(v), its root mean square over the steps so far, and moves the element by
about the learning rate whatever the size. A rounding error e therefore moves it by learning_rate * e / (sqrt(v) +
epsilon), which is large where an element's terms cancel in every step: if they always cancel to 1/c of their size, e
is 6e-8 * c of the step. A variable that starts at zero (a bias) consists of such steps, so 1e-5 holds while c stays
below a hundred. The tasks have a few hundred elements and smooth losses; the worst seen is 4e-7. No bound would hold
where the true gradient is zero and only rounding is left, as in the bias of attention keys; no task here has one. The
same holds for other optimizers that divide by the gradient's size (Adagrad, Nadam, AdamW).
"""

ROUNDED_BOUNDS = {"bf16": 4 * 2.0**-8, "fp16": 4 * 2.0**-11}
"""The same for gradients in 16 bits, with SGD or momentum and at most four replicas.

An element is rounded at most four times on its way (three hops and the mean's), each time by at most 2^-8 (bf16) or
2^-11 (fp16) of the message's largest, a sum over some replicas; so a step's mean gradient is off by at most four times
that of its largest element, as long as replicas do not cancel each other's. Both optimizers are linear in the gradient:
a variable that starts at zero is off by as much, any other by less. That roundings partly cancel makes up for replicas
that do, and for later gradients, which are taken at values already off. The worst seen are 4.4e-3 and 9.4e-4.
"""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Reference:
    """One process trained on the concatenated batches of all replicas: final values, and the loss of each step."""

    batches: tuple[tuple[tuple[Any, ...], ...], ...]
    values: Arrays
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Parity:
    """How far a strategy's training came from one process: the worst variable, and its norm-wise relative error."""

    worst_error: float
    worst_variable: str


@cache
def captured_task(task: str, optimizer: str) -> CapturedModel:
    return capture(build(task, _optimizer(optimizer)))


@cache
def session_on(task: str, optimizer: str, cluster: ClusterSpec) -> Session:
    """A session on logical devices of this process."""
    return Session(captured_task(task, optimizer), cluster, Placement.in_one_process(cluster))


@cache
def reference(task_name: str, optimizer_name: str, replicas: int) -> Reference:
    """Plain Keras, `STEPS` steps, each on the batches of all replicas end to end.

    Gradients are made dense before the optimizer sees them. Keras' own treatment of `IndexedSlices` is another rule:
    a row's duplicates are squared one by one in Adam's second moment, which is not the square of the row's gradient.
    """
    task = build(task_name, _optimizer(optimizer_name))
    make = tf.function(lambda seed: tf.nest.flatten(task.batch(seed)), autograph=False)
    structure = task.batch(tf.constant([0, 0], tf.int32))
    variables = task.model.trainable_variables
    batches, losses = [], []
    for step in range(STEPS):
        of_step = tuple(tuple(make(tf.constant([step, replica], tf.int32))) for replica in range(replicas))
        whole = [tf.concat(parts, 0) for parts in zip(*of_step, strict=True)]
        losses.append(_train(task, variables, *tf.nest.pack_sequence_as(structure, whole)))
        batches.append(of_step)
    return Reference(tuple(batches), {each.path: each.numpy() for each in variables}, tuple(losses))


def _optimizer(name: str) -> Any:
    return (OPTIMIZERS | MORE_OPTIMIZERS | OVER_ALL_GRADIENTS)[name]()


def _train(task: Any, variables: Sequence[Any], inputs: Any, targets: Any) -> float:
    """One step of one process; the loss before it."""
    with tf.GradientTape() as tape:
        outputs = task.model(inputs, training=True)
        loss = tf.add_n([task.loss(targets, outputs), *task.model.losses])
        scaled_loss = task.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled_loss, [each.value for each in variables])
    reached = [(tf.convert_to_tensor(g), v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    task.optimizer.apply(*map(list, zip(*reached, strict=True)))
    return float(loss)


def trained_alike(step: Step, expected: Reference, bound: float) -> Parity:
    """Train `step` on the reference's batches. Raises `AssertionError` unless it ends where one process did, within
    `bound`, with the same losses on the way and the same bytes on every replica."""
    for number, (batches, loss) in enumerate(zip(expected.batches, expected.losses, strict=True)):
        got = step.on(batches)
        assert abs(got - loss) <= bound * abs(loss), f"Loss {number} is {got}, but in one process {loss}."
    _assert_identical(step)
    errors = {name: _relative_error(each, expected.values[name]) for name, each in step.values().items()}
    worst = max(errors, key=lambda name: errors[name])
    assert errors[worst] <= bound, f"Variable {worst!r} is off by {errors[worst]:.1e}, more than {bound:.0e}."
    return Parity(errors[worst], worst)


def _assert_identical(step: Step) -> None:
    first = step.values(0)
    for replica in range(1, len(step.strategy.replicas)):
        for name, value in step.values(replica).items():
            assert value.tobytes() == first[name].tobytes(), f"Replica {replica} holds other bytes of {name!r}."


def _relative_error(value: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    assert value.shape == expected.shape
    assert value.dtype == expected.dtype
    return float(np.abs(value - expected).max() / np.abs(expected).max())

"""Reference training in one process, and the comparison of a strategy with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
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

Adam divides each element's gradient by sqrt(v), the gradient's root mean square over the steps so far, and moves the
element by about the learning rate for gradients of any size. A rounding error e therefore moves the element by
learning_rate * e / (sqrt(v) + epsilon). This is large if an element's terms cancel in every step: if they always cancel
to 1/c of their size, e is 6e-8 * c of the step. A variable that starts at zero (a bias) consists of such steps, so 1e-5
holds while c stays below a hundred. The tasks have a few hundred elements and smooth losses; the worst error seen is
4e-7. No bound would hold if the true gradient were zero and only rounding left, as in the bias of attention keys; no
task here has such a variable. The same holds for other optimizers that divide by the gradient's size (Adagrad, Nadam,
AdamW).
"""

ROUNDED_BOUNDS = {"bf16": 4 * 2.0**-8, "fp16": 4 * 2.0**-11}
"""The same for gradients in 16 bits, with SGD or momentum and at most four replicas.

An element is rounded at most four times on its way (three hops and the mean), each time by at most 2^-8 (bf16) or 2^-11
(fp16) of the message's largest element, a sum over some replicas. A step's mean gradient is thus off by at most four
times this share of its largest element, unless the gradients of replicas cancel each other. Both optimizers are linear
in the gradient: a variable that starts at zero is off by the same share, any other variable by less. Roundings partly
cancel, which makes up for gradients that cancel, and for later gradients, which are computed at values that are already
off. The worst errors seen are 4.4e-3 and 9.4e-4.
"""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Reference:
    """Training of one process on the concatenated batches of all replicas: final values, and the loss of each step."""

    batches: tuple[tuple[tuple[Any, ...], ...], ...]
    values: Arrays
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Parity:
    """The difference from training in one process: the worst variable and its norm-wise relative error."""

    worst_error: float
    worst_variable: str


@cache
def captured_task(task: str, optimizer: str) -> CapturedModel:
    return capture(build(task, _optimizer(optimizer)))


@cache
def session_on(task: str, optimizer: str, cluster: ClusterSpec) -> TensorFlowSession:
    """A session on logical devices of this process."""
    return TensorFlowSession(captured_task(task, optimizer), cluster, Placement.in_one_process(cluster))


@cache
def reference(task_name: str, optimizer_name: str, replicas: int) -> Reference:
    """Train with plain Keras for `STEPS` steps, each on the joined batches of all replicas.

    Gradients are made dense before the optimizer sees them. Keras's own treatment of `IndexedSlices` is another rule:
    it squares a row's duplicates one by one in Adam's second moment, which is not the square of the row's gradient.
    """
    task = build(task_name, _optimizer(optimizer_name))
    make = tf.function(lambda seed: tf.nest.flatten(task.batch(seed)), autograph=False)
    structure = task.batch(tf.constant([0, 0], tf.int32))
    variables = task.model.trainable_variables
    batches, losses = [], []
    for step in range(STEPS):
        of_step = tuple(tuple(make(tf.constant([step, replica], tf.int32))) for replica in range(replicas))
        whole = [tf.concat(parts, 0) for parts in zip(*of_step, strict=True)]
        losses.append(plain_step(task, variables, *tf.nest.pack_sequence_as(structure, whole)))
        batches.append(of_step)
    return Reference(tuple(batches), {variable.path: variable.numpy() for variable in variables}, tuple(losses))


def _optimizer(name: str) -> Any:
    return (OPTIMIZERS | MORE_OPTIMIZERS | OVER_ALL_GRADIENTS)[name]()


def plain_step(task: Any, variables: Sequence[Any], inputs: Any, targets: Any) -> float:
    """Take one step in one process; return the loss before the step."""
    with tf.GradientTape() as tape:
        outputs = task.model(inputs, training=True)
        loss = tf.add_n([task.loss(targets, outputs), *task.model.losses])
        scaled_loss = task.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled_loss, [variable.value for variable in variables])
    reached = [(tf.convert_to_tensor(g), v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    task.optimizer.apply(*map(list, zip(*reached, strict=True)))
    return float(loss)


def trained_alike(step: SynchronousStep, expected: Reference, bound: float) -> Parity:
    """Train `step` on the reference's batches. Raises `AssertionError` unless it ends at the values of one process,
    within `bound`, with the same losses on the way and the same bytes on every replica."""
    for number, (batches, loss) in enumerate(zip(expected.batches, expected.losses, strict=True)):
        got = step.on(batches)
        assert abs(got - loss) <= bound * abs(loss), f"Loss {number} is {got}, but in one process {loss}."
    _assert_identical(step)
    errors = {name: _relative_error(value, expected.values[name]) for name, value in step.values().items()}
    worst = max(errors, key=lambda name: errors[name])
    assert errors[worst] <= bound, f"Variable {worst!r} is off by {errors[worst]:.1e}, more than {bound:.0e}."
    return Parity(errors[worst], worst)


def _assert_identical(step: SynchronousStep) -> None:
    first = step.values(0)
    for replica in range(1, len(step.strategy.replicas)):
        for name, value in step.values(replica).items():
            assert value.tobytes() == first[name].tobytes(), f"Replica {replica} holds other bytes of {name!r}."


def _relative_error(value: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    assert value.shape == expected.shape
    assert value.dtype == expected.dtype
    return float(np.abs(value - expected).max() / np.abs(expected).max())

"""The TensorFlow engine under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, final

import keras
import pytest
import tensorflow as tf

from autosync.engine.core.contract import Session
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.numeric import AnyArray
from autosync.spec import Strategy
from tests.contracts.parity import plain_step
from tests.engine.contracts.nets import BATCH, Net, loss
from tests.engine.contracts.subject import Case, Subject
from tests.engine.test_traffic import bytes_crossing

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.125),
    "momentum": lambda: keras.optimizers.SGD(0.125, momentum=0.75),
    "adam": lambda: keras.optimizers.Adam(0.01, epsilon=1e-6),
    "adagrad": lambda: keras.optimizers.Adagrad(0.125),
    "diverging": lambda: keras.optimizers.SGD(1e30),
}


class Operations:
    """`nets.Operations` by Keras."""

    matmul, tanh, mean = staticmethod(keras.ops.matmul), staticmethod(keras.ops.tanh), staticmethod(keras.ops.mean)
    reshape, transpose = staticmethod(keras.ops.reshape), staticmethod(keras.ops.transpose)

    def conv(self, images: Any, kernel: Any) -> Any:
        return keras.ops.conv(images, kernel, data_format="channels_last")

    def like(self, array: AnyArray, values: Any) -> Any:
        return tf.constant(array, values.dtype)

    def rows(self, table: Any, numbers: Any, is_sparse: bool) -> Any:
        del is_sparse  # the capture finds out
        return keras.ops.take(table, numbers, axis=0)


OPERATIONS = Operations()


class Layer(keras.layers.Layer):
    """A whole model in one layer."""

    def __init__(self, net: Net, dtype: str) -> None:
        super().__init__(name="net", dtype=dtype)
        self.net = net
        self.by_name = {
            name: self.add_weight(shape=value.shape, initializer=lambda *_, value=value, **__: value, name=name)
            for name, value in net.values(dtype).items()
        }

    def call(self, inputs: Any) -> Any:
        return self.net.forward(OPERATIONS, self.by_name, inputs)


@final
class TensorFlowSubject(Subject):
    name = "tensorflow"
    prefix = "net/"

    def task(self, case: Case, replicas: int) -> TrainingTask:
        inputs, targets = case.net.batch(case.dtype)

        def batch(seed: Any) -> tuple[Any, Any]:
            number = seed[0] * replicas + seed[1]
            return tf.roll(inputs, number, 0), tf.roll(targets, number, 0)

        features = keras.Input(batch_shape=inputs.shape, dtype=inputs.dtype.name)
        model = keras.Model(features, Layer(case.net, case.dtype)(features))
        optimizer = OPTIMIZERS[case.optimizer]()
        return TrainingTask(case.name, model, lambda y, z: loss(OPERATIONS, z, y), optimizer, BATCH, batch)

    def reference(self, case: Case, replicas: int, steps: int) -> dict[str, AnyArray]:
        task = self.task(case, replicas)
        for step in range(steps):
            plain_step(task, task.model.trainable_variables, *case.net.whole_batch(case.dtype, step, replicas))
        return {variable.name: variable.numpy() for variable in task.model.trainable_variables}

    def sent(self, patch: pytest.MonkeyPatch, session: Session, strategy: Strategy) -> Counter[tuple[str, str]]:
        """Floating-point tensors that cross between devices in the traced step; only they have a known size."""
        del patch
        step, devices = session.realize(strategy), [str(device) for device in session.cluster.server_devices]
        assert isinstance(step, SynchronousStep)
        pairs = bytes_crossing(step).items()
        return Counter({(devices[source], devices[target]): size for (source, target), size in pairs})

"""Training tasks on PyTorch: the same Keras models without TensorFlow."""

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.engine.tensorflow.capture.variables import names_of
from autosync.errors import ModelError
from autosync.zoo import build_task

BACKEND = "torch"
NEEDED = {"torch": "PyTorch", "keras": "Keras 3"}


def load_keras_on_torch(policy: str) -> None:
    """Import Keras such that it runs on PyTorch and builds layers with the dtype policy `policy`.

    Raises `ModelError` if Keras or PyTorch is not installed, or if Keras was already imported on another back end.
    """
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = BACKEND
    for name, called in NEEDED.items():
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ModelError(
                f"A profile is measured with PyTorch and Keras 3, but importing {called} failed ({error}); install "
                f"the packages {' and '.join(NEEDED)}."
            ) from None
    keras = sys.modules["keras"]
    if keras.backend.backend() != BACKEND:
        raise ModelError(
            "Keras must run on PyTorch to measure a profile, but this process has imported it on "
            f"{keras.backend.backend()!r}; measure in a process of its own."
        )
    keras.config.set_dtype_policy(policy)


@dataclass(frozen=True)
class TaskOnTorch:
    """A task built on PyTorch, with one batch on the device that Keras uses."""

    name: str
    batch_size: int
    parameters: dict[str, Any]
    """Trainable torch parameters by the paths of their variables, in the model's order."""
    _device: str
    """Device by Keras's name."""
    _task: Any
    _inputs: Any
    _targets: Any

    def check(self) -> None:
        """Make one forward and backward pass, and raise `ModelError` if the task cannot be trained."""
        from autosync.engine.core.blame import blame

        try:
            loss = self.loss()
            if not loss.ndim:
                loss.backward()
        except Exception as error:  # any error of a user's layer or loss
            raise ModelError(f"The model or loss of {self.name!r} fails on PyTorch: {blame(error)}.") from error
        if loss.ndim:
            raise ModelError(
                f"The loss of {self.name!r} must be a scalar, but has shape {tuple(loss.shape)}; take its mean over "
                "the batch."
            )

    def loss(self) -> Any:
        """The training loss of one forward pass, a scalar float32 tensor with its gradient function.

        As in a captured model, it is the task's loss plus the losses that layers add (regularizers).
        """
        import keras

        model = self._task.model
        with keras.device(self._device):
            loss = self._task.loss(self._targets, model(self._inputs, training=True))
            for added in model.losses:
                loss = loss + keras.ops.cast(added, "float32")
        return loss


def build_on_torch(name: str, device: str) -> TaskOnTorch:
    """Build the model `name`, of the zoo or the user's own, on `device` (Keras's name). Raises `ModelError`."""
    import keras

    with keras.device(device):
        try:
            task = build_task(name, backend=BACKEND)
        except ImportError as error:
            raise ModelError(f"Model {name!r} needs a package that cannot be imported: {error}; install it.") from None
        inputs, targets = keras.tree.map_structure(keras.ops.convert_to_tensor, task.batch(np.random.SeedSequence(0)))
    variables = task.model.trainable_variables
    parameters = {name: variable.value for name, variable in zip(names_of(variables), variables, strict=True)}
    return TaskOnTorch(task.name, task.batch_size, parameters, device, task, inputs, targets)

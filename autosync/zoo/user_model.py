"""Training tasks from a user's own function, named as `package.module:function`."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autosync.engine.core.marked_processes import forks_end_with_this
from autosync.engine.core.user_function import call_user_function, check_framework, user_function
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.errors import ModelError
from autosync.zoo.own_parts import class_name
from autosync.zoo.own_task import OwnParts, user_task

BACKENDS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
"""The back ends of Keras by Keras's names."""


@contextmanager
def repeatable_build(seed: int = 0, backend: str = "tensorflow") -> Iterator[None]:
    """Make every Keras model built inside the block bit-identical each time, variable paths included.

    Keras draws the seed of each unseeded initializer and dropout layer from Python's global generator, and numbers
    unnamed layers through a counter that lives as long as the process. The block seeds the generator and restores its
    state afterwards, and restarts the counter (a layer's name must be unique within its model only). Only one thread
    may use the block at a time. Raises `ModelError` if Keras does not run on `backend`.
    """
    import keras
    from keras.src.utils.naming import reset_uids  # the public clear_session() would drop a user's dtype policy as well

    if keras.backend.backend() != backend:
        raise ModelError(
            f"Keras must run on {BACKENDS.get(backend, backend)} here, but its backend is {keras.backend.backend()!r}; "
            f"set KERAS_BACKEND={backend}."
        )
    state = random.getstate()
    reset_uids()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


LEARNING_RATE = 1e-3
"""The learning rate of Adam, which trains a model whose function returns no optimizer."""


def task_from_function(spec: str, backend: str = "tensorflow") -> TrainingTask:
    """Return the task of `package.module:function`, which is called without arguments.

    The function returns (compiled_model, (inputs, targets)) or (keras_model, loss, (inputs, targets)), with a Keras
    optimizer or its name as a fourth item instead of Adam at 1e-3. `loss_function` states the accepted losses. The
    example batch holds NumPy arrays or tensors whose first axis counts examples, with weights of examples as an
    optional third item; the first batch of a `tf.data.Dataset` is used. Each replica's batch is the example, rolled
    along the first axis by the seed (see `user_task`). Targets must therefore not be positions in the batch; a loss can
    count positions itself, with `tf.range`.

    Modules are also imported from the current directory, now and when the model is traced later. The function is called
    such that unseeded Keras weights are the same each time; it must seed all other random numbers. On TensorFlow, one
    forward and backward pass checks that the task can be trained. Raises `ModelError`.
    """
    with forks_end_with_this():
        function = user_function(spec)
        with repeatable_build(backend=backend):
            return task_of_parts(spec, call_user_function(spec, function))


def task_of_parts(spec: str, returned: Any) -> TrainingTask:
    """The task of the value that the function called `spec` returned. Raises `ModelError`."""
    check_framework(spec, returned, "tensorflow")
    return user_task(spec, _parts(spec, returned))


def _parts(spec: str, returned: Any) -> OwnParts:
    """The parts of a task in the value that the function of `spec` returned. Raises `ModelError`."""
    import keras

    called = tuple(f"The {which} item {spec!r} returns" for which in ("first", "second", "fourth"))
    if isinstance(returned, keras.Model):
        raise ModelError(
            f"{spec!r} must return an example batch with the model, as (model, (inputs, targets)) for a compiled model "
            "or (model, loss, (inputs, targets)), but returned the model alone."
        )
    if not isinstance(returned, tuple | list) or len(returned) not in (2, 3, 4):
        kind = f"a {type(returned).__name__} of {len(returned)}" if isinstance(returned, tuple | list) else None
        raise ModelError(
            f"{spec!r} must return (keras_model, loss, (inputs, targets)) with an optimizer as fourth item if any, "
            f"or (compiled_model, (inputs, targets)), but returned {kind or class_name(returned)}."
        )
    if len(returned) == 2:
        model, loss, example = returned[0], None, returned[1]
        optimizer = None
        called = (called[0], f"The loss of {spec!r}", f"The optimizer of {spec!r}")
    else:
        model, loss, example = returned[:3]
        optimizer = returned[3] if len(returned) == 4 else _default_optimizer(model)
    batch = _batch(spec, example)
    weighted = len(batch) == 3
    if weighted:
        batch = batch[0], (batch[1], batch[2])
    return OwnParts(model, loss, batch, optimizer, weighted=weighted, called=(called[0], called[1], called[2]))


def _default_optimizer(model: Any) -> Any:
    """The optimizer that `model` is compiled with, or Adam."""
    import keras

    return getattr(model, "optimizer", None) or keras.optimizers.Adam(LEARNING_RATE, name="adam")


def _batch(spec: str, example: Any) -> tuple[Any, ...]:
    """(inputs, targets), perhaps with weights: the example batch, or the first of a data set. Raises `ModelError`."""
    import keras

    batch = example
    if isinstance(example, keras.utils.PyDataset):
        batch = example[0]
    elif hasattr(example, "element_spec") or isinstance(example, Iterator):  # a `tf.data.Dataset`, or a generator
        batch = next(iter(example), None)
        if batch is None:
            raise ModelError(f"The data set that {spec!r} returns must have at least one batch, but has none.")
    if isinstance(batch, list):
        batch = tuple(batch)
    if not isinstance(batch, tuple) or len(batch) not in (2, 3):
        kind = f"a tuple of {len(batch)}" if isinstance(batch, tuple) else class_name(batch)
        raise ModelError(
            f"The batch that {spec!r} returns must be a pair (inputs, targets), or a data set of them, not {kind}."
        )
    return batch if len(batch) == 2 or batch[2] is not None else batch[:2]

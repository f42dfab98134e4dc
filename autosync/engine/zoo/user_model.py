"""A training task from a user's own function, named as `package.module:function`."""

import importlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from autosync.engine.capture.task import TrainingTask
from autosync.engine.ending import forks_end_with_this
from autosync.engine.zoo import parts_of_own
from autosync.engine.zoo.blame import blame
from autosync.engine.zoo.own_parts import class_name
from autosync.engine.zoo.own_task import OwnParts, own_task
from autosync.errors import ModelError

BACKENDS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
"""What Keras runs on, by Keras's name of it."""


@contextmanager
def repeatable_build(seed: int = 0, backend: str = "tensorflow") -> Iterator[None]:
    """Make every Keras model built inside the block bit-identical each time, variable paths included.

    Keras draws the seed of each unseeded initializer and dropout layer from Python's global generator, and numbers
    unnamed layers through a counter that lives as long as the process. The block seeds the one and puts it back
    afterwards, and restarts the other (a layer's name has to be unique within its model only). It is not for
    several threads at once. Raises `ModelError` when Keras does not run on `backend`.
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
"""The learning rate of the Adam that trains a model whose function names no optimizer."""


def task_from_function(spec: str, backend: str = "tensorflow") -> TrainingTask:
    """The task made from what `package.module:function` returns when called without arguments.

    That is (keras_model, loss, (inputs, targets)), and as a fourth item a Keras optimizer, or the name of one, if Adam
    at 1e-3 will not do; or (compiled_model, (inputs, targets)). `loss_function` says which losses there may be.
    The example batch holds NumPy arrays or tensors whose first axis counts examples, with weights of examples as a
    third item if any; of a `tf.data.Dataset` the first batch is taken. Each replica's batch is that one again, rolled
    along the first axis by the seed (see `own_task`). So targets must not be positions in the batch; a loss can count
    these itself, with `tf.range`.

    The current directory can be imported from, now and when the model is traced later. The function is called where
    unseeded Keras weights come out the same each time; seed whatever else it draws. On TensorFlow one forward and
    backward pass is made to see that the task can be trained. Raises `ModelError`.
    """
    with forks_end_with_this():
        function = _function(spec)
        with repeatable_build(backend=backend):
            return own_task(spec, _parts(spec, _called(spec, function)))


def _function(spec: str) -> Callable[[], Any]:
    module_name, function_name = parts_of_own(spec)
    function: Callable[[], Any] | None = getattr(_module(spec, module_name), function_name, None)
    if function is None or not callable(function):
        raise ModelError(
            f"Module {module_name!r} must have a function {function_name!r} that returns (model, loss, batch), "
            "but has none of that name."
        )
    return function


def _module(spec: str, name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ModelError(
                f"{spec!r} needs a module {name!r}, but {error.name!r} was found neither in the current directory "
                f"({os.getcwd()}) nor among the installed packages; check the name or change the directory."
            ) from error
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {blame(error)}.") from error
    except Exception as error:
        raise ModelError(f"Importing {name!r} for {spec!r} failed: {blame(error)}.") from error
    except SystemExit as error:  # it would end a worker process, and all that was heard of it were that it died
        raise ModelError(
            f"Importing {name!r} for {spec!r} ended the process with sys.exit: {blame(error)}; "
            "keep what the module does as a script under `if __name__ == '__main__'`."
        ) from error


def _called(spec: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise ModelError(f"The function {spec!r}, called without arguments, failed: {blame(error)}.") from error
    except SystemExit as error:  # as in `_module`
        raise ModelError(
            f"The function {spec!r}, called without arguments, ended the process with sys.exit: {blame(error)}; "
            "let it return (model, loss, batch) instead."
        ) from error


def _parts(spec: str, returned: Any) -> OwnParts:
    """The parts that the function of `spec` returned. Raises `ModelError`."""
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
    """(inputs, targets), perhaps with weights: the example batch, or a data set's first one. Raises `ModelError`."""
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

"""Sets Keras's settings of a process, which a user's keras.json may have changed."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from autosync.engine.tensorflow.capture.task import TrainingTask

Made = TypeVar("Made")


@contextmanager
def keras_defaults() -> Iterator[None]:
    """In the block, use the settings that Keras has without a keras.json; restore the user's settings afterwards.

    Models of the zoo are built so: images have their channels last, numbers are float32 and epsilon is 1e-7. Layers
    read these settings when they are created.
    """
    import keras

    config = keras.config
    before = config.image_data_format(), config.floatx(), config.epsilon(), config.dtype_policy()
    config.set_image_data_format("channels_last")
    config.set_floatx("float32")
    config.set_epsilon(1e-7)
    config.set_dtype_policy("float32")
    try:
        yield
    finally:
        config.set_image_data_format(before[0])
        config.set_floatx(before[1])
        config.set_epsilon(before[2])
        config.set_dtype_policy(before[3])


def by_its_settings(make: Callable[[TrainingTask], Made]) -> Callable[[TrainingTask], Made]:
    """Decorate a function of a task so that the function runs with the task's Keras settings."""

    @functools.wraps(make)
    def made(task: TrainingTask) -> Made:
        if not task.keras_defaults:
            return make(task)
        with keras_defaults():
            return make(task)

    return made

"""Keras' settings of a process, which a user's keras.json may have changed."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from autosync.engine.capture.task import TrainingTask

Made = TypeVar("Made")


@contextmanager
def keras_defaults() -> Iterator[None]:
    """Build models of the zoo with the settings that Keras has without a keras.json, and put the user's back then.

    Images have their channels last, numbers are float32 and epsilon is 1e-7: layers read these when they are made.
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
    """Decorate a function of a task so that it runs with the settings that the task asks for."""

    @functools.wraps(make)
    def made(task: TrainingTask) -> Made:
        if not task.keras_defaults:
            return make(task)
        with keras_defaults():
            return make(task)

    return made

"""A block in which Keras builds the same weights under the same names each time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from autosync.errors import ModelError

__all__ = ["repeatable_build"]


@contextmanager
def repeatable_build(seed: int = 0) -> Iterator[None]:
    """Make every Keras model built inside the block bit-identical each time, variable paths included.

    Keras draws the seed of each unseeded initializer and dropout layer from Python's global generator, and numbers
    unnamed layers through a counter that lives as long as the process. The block seeds the one and puts it back
    afterwards, and restarts the other (a layer's name has to be unique within its model only). It is not for
    several threads at once. Raises `ModelError` when Keras does not run on TensorFlow.
    """
    import keras
    from keras.src.utils.naming import reset_uids  # the public clear_session() would drop a user's dtype policy as well

    if keras.backend.backend() != "tensorflow":
        raise ModelError(
            f"Keras must run on TensorFlow here, but its backend is {keras.backend.backend()!r}; "
            "set KERAS_BACKEND=tensorflow."
        )
    state = random.getstate()
    reset_uids()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)

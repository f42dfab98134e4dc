"""Prints the shapes of the variables of Keras models as JSON, from PyTorch's `meta` device, which stores nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras

from autosync.zoo import build_task
from autosync.zoo.names import IN_TORCH


def flat_shape(variable: Any) -> list[int]:
    """The variable's shape with all heads of an attention along one dimension, in ascending order."""
    shape, path = list(variable.shape), variable.path
    if path.endswith("attention_output/kernel"):
        shape = [shape[0] * shape[1], shape[2]]
    elif path.rpartition("/")[0].endswith(("query", "key", "value")):
        shape = [*shape[:-2], shape[-2] * shape[-1]]
    return sorted(shape)


if __name__ == "__main__":
    shapes = {}
    for name in IN_TORCH:
        with keras.device("meta"):
            task = build_task(name, backend="torch")
        shapes[name] = [task.batch_size, *map(flat_shape, task.model.trainable_variables)]
    sys.stdout.write(json.dumps(shapes))

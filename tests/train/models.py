"""Small Keras models to train in tests, with data and strategies for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from autosync.spec import (
    AllReduce,
    Discipline,
    ParameterServer,
    Partition,
    Rhythm,
    Strategy,
    TopK,
    VariableStrategy,
)

__all__ = [
    "LOSS",
    "REPLICAS",
    "all_reduce",
    "batches",
    "classifier",
    "compressed",
    "local_steps",
    "mixture",
    "noisy_classifier",
    "tagger",
    "words",
]

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

FEATURES, CLASSES, WORDS = 6, 3, 19

REPLICAS = ("node0/cpu:0", "node0/cpu:1", "node0/cpu:2")


def classifier() -> Any:
    """Two dense layers; the same weights each time."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(7, "tanh", name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(hidden), name="classifier")


def noisy_classifier() -> Any:
    """A classifier with batch normalization and dropout, so that every replica has its own state."""
    keras.utils.set_random_seed(2)
    inputs = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(7, "tanh", name="hidden")(inputs)
    hidden = keras.layers.Dropout(0.3, name="drop")(keras.layers.BatchNormalization(name="norm")(hidden))
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(hidden), name="noisy")


def tagger() -> Any:
    """A model with an embedding, whose gradient is sparse, and two named inputs."""
    keras.utils.set_random_seed(3)
    ids, weight = keras.Input((4,), dtype="int32", name="ids"), keras.Input((1,), name="weight")
    rows = keras.layers.Embedding(WORDS, 5, name="table")(ids)
    summed = keras.layers.Concatenate(name="both")([keras.layers.Flatten(name="flat")(rows), weight])
    return keras.Model(
        {"ids": ids, "weight": weight}, keras.layers.Dense(CLASSES, name="logits")(summed), name="tagger"
    )


def batches(sizes: tuple[int, ...], seed: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield (features, labels) of these sizes."""
    generator = np.random.default_rng(seed)
    for size in sizes:
        features = generator.normal(size=(size, FEATURES)).astype("float32")
        yield features, generator.integers(0, CLASSES, size)


def words(sizes: tuple[int, ...]) -> Iterator[tuple[Any, Any]]:
    """Yield ({ids, weight}, labels) of these sizes, with repeated words."""
    generator = np.random.default_rng(4)
    for size in sizes:
        ids = generator.integers(0, WORDS, (size, 4), dtype="int32")
        inputs = {"weight": generator.normal(size=(size, 1)).astype("float32"), "ids": ids}
        yield inputs, generator.integers(0, CLASSES, size)


def all_reduce(model: Any) -> Strategy:
    """Everything in one ring."""
    variables = tuple(VariableStrategy(variable.path, (AllReduce(0),)) for variable in model.trainable_variables)
    return Strategy(REPLICAS, variables)


def compressed(model: Any) -> Strategy:
    """Top-k with error feedback: every replica keeps the residual that it has not sent."""
    kinds = (lambda: AllReduce(0, compressor=TopK(0.3)), lambda: ParameterServer("node0/cpu:1", compressor=TopK(0.5)))
    paths = [variable.path for variable in model.trainable_variables]
    variables = tuple(VariableStrategy(path, (kinds[number % 2](),)) for number, path in enumerate(paths))
    return Strategy(REPLICAS, variables)


def local_steps(model: Any) -> Strategy:
    """Replicas that average their values in every fourth step."""
    return replace(all_reduce(model), discipline=Discipline(Rhythm(4)))


def mixture(model: Any) -> Strategy:
    """Servers and rings in turn, and a variable cut into one shard of each kind."""
    kinds = (
        lambda path: VariableStrategy(path, (AllReduce(0), ParameterServer("node0/cpu:1")), Partition(0, 2)),
        lambda path: VariableStrategy(path, (ParameterServer("node0/cpu:2", local_copy=True),)),
        lambda path: VariableStrategy(path, (AllReduce(1),)),
    )
    paths = [variable.path for variable in model.trainable_variables]
    return Strategy(REPLICAS, tuple(kinds[number % 3](path) for number, path in enumerate(paths)))

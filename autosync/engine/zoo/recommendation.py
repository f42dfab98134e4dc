"""Neural collaborative filtering (NeuMF) at the sizes of MovieLens-20M.

He et al., "Neural Collaborative Filtering", 2017, as MLPerf training ran it: matrix factorization of width 64 beside a
perceptron 256-256-128-64, whose first 256 are a user's and a film's embeddings of 128 each; Adam (0.9, 0.999, 1e-8).
A replica's batch is MLPerf's 1 048 576 over 16 replicas. All four tables' gradients are sparse and outweigh
everything else; the tables themselves are far larger than what a step touches.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.drawing import arrays_of
from autosync.engine.zoo.losses import binary_cross_entropy
from autosync.engine.zoo.synthetic import scattered, skewed_ids, zipf_ids

NEGATIVES = 4
"""Films a user did not see, drawn uniformly, for each film seen."""


@dataclass(frozen=True)
class NeuMFSize:
    """`layers` are the perceptron's widths; half of the first is the width of its user and of its item table."""

    users: int
    items: int
    factors: int
    layers: tuple[int, ...]
    batch_size: int
    learning_rate: float


SIZES = {
    "ncf": NeuMFSize(138493, 26744, 64, (256, 256, 128, 64), 65536, 5e-4),
    "ncf-mini": NeuMFSize(40000, 8000, 32, (128, 128, 64, 32), 4096, 5e-4),
}


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `SIZES`: ncf 31.8 M parameters, ncf-mini 4.6 M."""
    size = SIZES[name]
    return TrainingTask(
        name=name,
        model=_neumf(name, size),
        loss=binary_cross_entropy,
        optimizer=keras.optimizers.Adam(size.learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-8, name="adam"),
        batch_size=size.batch_size,
        batch=partial(_ratings_batch, size=size),
    )


def _neumf(name: str, size: NeuMFSize) -> Any:
    users = keras.Input(batch_shape=(size.batch_size,), dtype="int32", name="users")
    items = keras.Input(batch_shape=(size.batch_size,), dtype="int32", name="items")

    def looked_up(ids: Any, rows: int, width: int, table: str) -> Any:
        normal = keras.initializers.RandomNormal(stddev=0.01)
        return keras.layers.Embedding(rows, width, embeddings_initializer=normal, name=table)(ids)

    factors = keras.layers.Multiply(name="mf_product")(
        [
            looked_up(users, size.users, size.factors, "mf_user_embedding"),
            looked_up(items, size.items, size.factors, "mf_item_embedding"),
        ]
    )
    x = keras.layers.Concatenate(name="mlp_input")(
        [
            looked_up(users, size.users, size.layers[0] // 2, "mlp_user_embedding"),
            looked_up(items, size.items, size.layers[0] // 2, "mlp_item_embedding"),
        ]
    )
    for index, width in enumerate(size.layers[1:]):
        x = keras.layers.Dense(width, "relu", name=f"mlp_layer_{index}")(x)
    both = keras.layers.Concatenate(name="neumf")([factors, x])
    logit = keras.layers.Dense(1, kernel_initializer="lecun_uniform", name="prediction")(both)
    return keras.Model([users, items], keras.layers.Reshape((), name="logit")(logit), name=name)


def _ratings_batch(seed: Any, size: NeuMFSize) -> tuple[Any, Any]:
    """One rating in five was really made: of a popular film (Zipf), by a user who rates much (mildly skewed)."""
    on = arrays_of(seed)
    who, seen, unseen, made = on.split(seed, 4)
    shape = (size.batch_size,)
    users = scattered(skewed_ids(who, shape, size.users), size.users)
    popular = scattered(zipf_ids(seen, shape, size.items), size.items)
    any_item = on.below(unseen, shape, size.items)
    positive = on.uniform(made, shape) < 1 / (1 + NEGATIVES)
    return (users, on.where(positive, popular, any_item)), on.float32(positive)

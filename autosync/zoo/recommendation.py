"""Neural collaborative filtering (NeuMF) at the sizes of MovieLens-20M.

He et al., "Neural Collaborative Filtering", 2017, as in MLPerf training: matrix factorization of width 64 in parallel
with a perceptron 256-256-128-64, whose first 256 are a user's and a film's embeddings of 128 each; Adam (0.9, 0.999,
1e-8). A replica's batch is MLPerf's 1 048 576 divided by 16 replicas. The gradients of all four tables are sparse and
larger than all other gradients; the tables are far larger than the rows that a step touches.
"""

from functools import partial
from typing import Any

import keras

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.batches import ratings_batch
from autosync.zoo.losses import binary_cross_entropy
from autosync.zoo.sizes import RECOMMENDERS, NeuMFSize


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `RECOMMENDERS`: ncf 31.8 M parameters, ncf-mini 4.6 M."""
    size = RECOMMENDERS[name]
    return TrainingTask(
        name=name,
        model=_neumf(name, size),
        loss=binary_cross_entropy,
        optimizer=keras.optimizers.Adam(size.learning_rate, beta_1=0.9, beta_2=0.999, epsilon=1e-8, name="adam"),
        batch_size=size.batch_size,
        batch=partial(ratings_batch, size=size),
    )


def _neumf(name: str, size: NeuMFSize) -> Any:
    users = keras.Input(batch_shape=(size.batch_size,), dtype="int32", name="users")
    items = keras.Input(batch_shape=(size.batch_size,), dtype="int32", name="items")

    def look_up(ids: Any, rows: int, width: int, table: str) -> Any:
        normal = keras.initializers.RandomNormal(stddev=0.01)
        return keras.layers.Embedding(rows, width, embeddings_initializer=normal, name=table)(ids)

    factors = keras.layers.Multiply(name="mf_product")(
        [
            look_up(users, size.users, size.factors, "mf_user_embedding"),
            look_up(items, size.items, size.factors, "mf_item_embedding"),
        ]
    )
    x = keras.layers.Concatenate(name="mlp_input")(
        [
            look_up(users, size.users, size.layers[0] // 2, "mlp_user_embedding"),
            look_up(items, size.items, size.layers[0] // 2, "mlp_item_embedding"),
        ]
    )
    for index, width in enumerate(size.layers[1:]):
        x = keras.layers.Dense(width, "relu", name=f"mlp_layer_{index}")(x)
    combined = keras.layers.Concatenate(name="neumf")([factors, x])
    logit = keras.layers.Dense(1, kernel_initializer="lecun_uniform", name="prediction")(combined)
    return keras.Model([users, items], keras.layers.Reshape((), name="logit")(logit), name=name)

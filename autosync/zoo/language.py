"""A decoder-only language model with an untied output projection.

Its sizes are those of the "big" Transformer of Vaswani et al., "Attention Is All You Need", 2017, as MLPerf trained it
on WMT (33 708 words), without the encoder. It trains by Adam with the paper's betas. The input embedding's gradient is
sparse; the output projection's gradient is dense and as large as the table. The mini model has no dropout.
"""

from functools import partial
from typing import Any

import keras
import keras_hub

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.batches import next_word_batch
from autosync.zoo.losses import cross_entropy
from autosync.zoo.sizes import LANGUAGE_MODELS, LanguageModelSize


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `LANGUAGE_MODELS`: transformer-lm 145 M parameters, transformer-lm-mini 1.3 M."""
    size = LANGUAGE_MODELS[name]
    return TrainingTask(
        name=name,
        model=decoder(name, size),
        loss=cross_entropy,
        optimizer=keras.optimizers.Adam(size.learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, name="adam"),
        batch_size=size.batch_size,
        batch=partial(next_word_batch, size=size),
    )


def decoder(name: str, size: LanguageModelSize) -> Any:
    """A decoder of `size` called `name`: int32 tokens (batch, sequence) -> logits (batch, sequence, vocabulary)."""
    token_ids = keras.Input(batch_shape=(size.batch_size, size.sequence), dtype="int32", name="token_ids")
    tokens = keras.layers.Embedding(
        size.vocabulary,
        size.width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=size.width**-0.5),
        name="token_embedding",
    )(token_ids)
    positions = keras_hub.layers.PositionEmbedding(size.sequence, name="position_embedding")(tokens)
    x = keras.layers.Add(name="embeddings_add")([tokens, positions])
    for index in range(size.layers):
        x = keras_hub.layers.TransformerDecoder(
            intermediate_dim=4 * size.width,
            num_heads=size.heads,
            dropout=size.dropout,
            activation="relu",
            normalize_first=True,
            name=f"decoder_layer_{index}",
        )(x)
    x = keras.layers.LayerNormalization(name="final_layer_norm")(x)
    logits = keras.layers.Dense(size.vocabulary, use_bias=False, name="output_projection")(x)
    return keras.Model(token_ids, logits, name=name)

"""BERT: masked-language pretraining and classification.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019, as in MLPerf training, except:

- Sequences are those of the first phase (128 tokens, 20 predicted), not of the second (512 and 76), so that a replica
  fits on common GPUs in float32. Sequences are full, so there is no padding mask.
- The objective is masked words only, without next-sentence prediction, so pretraining has no pooler.
- Adam replaces LAMB, because LAMB's layer-wise trust ratio needs the norms of a whole variable; no weight decay.
- The segment table of two rows is multiplied by one-hot vectors as in the paper's own code, so its gradient is dense.

The layers are keras-hub's, with the names that `keras_hub.models.BertBackbone` uses; that class itself always has a
pooler and a mask. In pretraining the output projection is the transposed token embedding, which makes the embedding's
gradient dense; in classification it is sparse. The mini models have no dropout, which keeps their graphs small.
"""

from functools import partial
from typing import Any

import keras
import keras_hub

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.batches import classifier_batch, pretraining_batch
from autosync.zoo.losses import cross_entropy
from autosync.zoo.sizes import BERT, CLASSES, SEGMENTS, BertSize


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `BERT`.

    bert-base 109 M parameters, bert-large 335 M, bert-classifier 109 M, bert-mini 0.87 M,
    bert-classifier-mini 4.3 M.
    """
    size = BERT[name]
    return TrainingTask(
        name=name,
        model=_pretraining_model(name, size) if size.predictions else _classifier(name, size),
        loss=cross_entropy,
        optimizer=keras.optimizers.Adam(size.learning_rate, beta_2=0.999, epsilon=1e-6, name="adam"),
        batch_size=size.batch_size,
        batch=partial(pretraining_batch if size.predictions else classifier_batch, size=size),
    )


def _initializer() -> Any:
    return keras.initializers.TruncatedNormal(stddev=0.02)


def _gelu(x: Any) -> Any:
    return keras.activations.gelu(x, approximate=True)


def _ids(name: str, *shape: int) -> Any:
    return keras.Input(batch_shape=shape, dtype="int32", name=name)


def _encoder(size: BertSize, token_ids: Any, segment_ids: Any, token_embedding: Any) -> Any:
    """The encoded sequence, (batch, sequence, width)."""
    tokens = token_embedding(token_ids)
    positions = keras_hub.layers.PositionEmbedding(
        size.sequence, initializer=_initializer(), name="position_embedding"
    )(tokens)
    segments = keras.layers.Dense(
        size.width, use_bias=False, kernel_initializer=_initializer(), name="segment_embedding"
    )(keras.ops.one_hot(segment_ids, SEGMENTS))
    x = keras.layers.Add(name="embeddings_add")([tokens, positions, segments])
    x = keras.layers.LayerNormalization(epsilon=1e-12, name="embeddings_layer_norm")(x)
    if size.dropout:
        x = keras.layers.Dropout(size.dropout, name="embeddings_dropout")(x)
    for index in range(size.layers):
        x = keras_hub.layers.TransformerEncoder(
            intermediate_dim=4 * size.width,
            num_heads=size.heads,
            dropout=size.dropout,
            activation=_gelu,
            layer_norm_epsilon=1e-12,
            kernel_initializer=_initializer(),
            name=f"transformer_layer_{index}",
        )(x)
    return x


def _pretraining_model(name: str, size: BertSize) -> Any:
    token_ids = _ids("token_ids", size.batch_size, size.sequence)
    segment_ids = _ids("segment_ids", size.batch_size, size.sequence)
    mask_positions = _ids("mask_positions", size.batch_size, size.predictions)
    embedding = keras_hub.layers.ReversibleEmbedding(
        size.vocabulary, size.width, embeddings_initializer=_initializer(), name="token_embedding"
    )
    encoded = _encoder(size, token_ids, segment_ids, embedding)
    logits = keras_hub.layers.MaskedLMHead(
        token_embedding=embedding,
        intermediate_activation=_gelu,
        kernel_initializer=_initializer(),
        name="masked_lm_head",
    )(encoded, mask_positions)
    return keras.Model([token_ids, segment_ids, mask_positions], logits, name=name)


def _classifier(name: str, size: BertSize) -> Any:
    token_ids = _ids("token_ids", size.batch_size, size.sequence)
    segment_ids = _ids("segment_ids", size.batch_size, size.sequence)
    embedding = keras.layers.Embedding(
        size.vocabulary, size.width, embeddings_initializer=_initializer(), name="token_embedding"
    )
    encoded = _encoder(size, token_ids, segment_ids, embedding)
    pooled = keras.layers.Dense(size.width, "tanh", kernel_initializer=_initializer(), name="pooled_dense")(
        encoded[:, 0, :]
    )
    if size.dropout:
        pooled = keras.layers.Dropout(size.dropout, name="classifier_dropout")(pooled)
    logits = keras.layers.Dense(CLASSES, kernel_initializer=_initializer(), name="logits")(pooled)
    return keras.Model([token_ids, segment_ids], logits, name=name)

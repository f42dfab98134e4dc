"""Synthetic training data, drawn inside the graph from an int32 seed of shape (2,)."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

MASK_ID = 0


def split_seed(seed: Any, parts: int) -> list[Any]:
    """`parts` independent seeds of shape (2,) made from one."""
    return list(tf.unstack(tf.random.split(seed, parts)))


def zipf_ids(seed: Any, shape: Sequence[int], size: int) -> Any:
    """int32 ids below `size`, of `shape`, the commonest first: P(id = k) = log((k+2)/(k+1)) / log(size+1).

    This is Zipf's law with exponent 1, as word counts have it, drawn by inverting the distribution function:
    k = floor((size+1)^u) - 1 for uniform u. Common ids repeat, so n draws touch far fewer than n rows of an embedding;
    that number decides how much its sparse gradient weighs.
    """
    uniform = tf.random.stateless_uniform(shape, seed)
    return tf.minimum(tf.cast(tf.exp(uniform * math.log(size + 1)), tf.int32) - 1, size - 1)


def skewed_ids(seed: Any, shape: Sequence[int], size: int) -> Any:
    """int32 ids below `size`, of `shape`, mildly skewed: floor(size u^2) for uniform u, P(id = k) falls as k^-1/2."""
    uniform = tf.random.stateless_uniform(shape, seed)
    return tf.minimum(tf.cast(tf.square(uniform) * size, tf.int32), size - 1)


def scattered(ranks: Any, size: int) -> Any:
    """The same ids in another order, common and rare ones mixed: a fixed one-to-one map of 0..size-1 onto itself.

    Word lists are sorted by frequency, lists of users or films are not; shards of the one are touched unevenly,
    shards of the other evenly.
    """
    stride = int(size * 0.618)
    while math.gcd(stride, size) != 1:
        stride += 1
    return tf.cast(tf.cast(ranks, tf.int64) * stride % size, tf.int32)


def masked_tokens(seed: Any, shape: tuple[int, int], predictions: int, vocabulary: int) -> tuple[Any, Any, Any]:
    """Token ids of `shape` (batch, sequence) for masked-language modelling, all int32.

    Returns the ids with `predictions` distinct positions in each row overwritten by `MASK_ID`, those positions, and
    the ids that stood there, both of shape (batch, predictions).
    """
    words, places = split_seed(seed, 2)
    ids = zipf_ids(words, shape, vocabulary)
    chosen = tf.math.top_k(tf.random.stateless_uniform(shape, places), predictions)
    hidden = tf.random.stateless_uniform(shape, places) >= chosen.values[:, -1:]
    return tf.where(hidden, MASK_ID, ids), chosen.indices, tf.gather(ids, chosen.indices, batch_dims=1)


def bright_images(seed: Any, shape: tuple[int, int, int, int], classes: int) -> tuple[Any, Any]:
    """float32 images of `shape` (batch, height, width, channels) and int32 labels of shape (batch,).

    An image is uniform noise of unit variance, made brighter the higher its label is, so that there is something
    to learn.
    """
    noise, labels = split_seed(seed, 2)
    label = tf.random.stateless_uniform(shape[:1], labels, maxval=classes, dtype=tf.int32)
    image = tf.random.stateless_uniform(shape, noise, minval=-math.sqrt(3), maxval=math.sqrt(3))
    return image + tf.reshape(tf.cast(label, tf.float32) / classes - 0.5, (-1, 1, 1, 1)), label

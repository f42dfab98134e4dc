"""Synthetic training data, drawn from a seed by `zoo.drawing`: inside the graph, or in NumPy."""

import math
from collections.abc import Sequence
from typing import Any

from autosync.zoo.drawing import arrays_of

MASK_ID = 0


def zipf_ids(seed: Any, shape: Sequence[int], size: int) -> Any:
    """int32 ids below `size`, of `shape`, the commonest first: P(id = k) = log((k+2)/(k+1)) / log(size+1).

    This is Zipf's law with exponent 1, as for word counts, drawn by inverting the distribution function:
    k = floor((size+1)^u) - 1 for uniform u. Common ids repeat, so n draws touch far fewer than n rows of an embedding.
    The number of touched rows decides the size of the sparse gradient.
    """
    on = arrays_of(seed)
    uniform = on.uniform(seed, shape)
    return on.minimum(on.int32(on.exp(uniform * math.log(size + 1))) - 1, size - 1)


def mildly_skewed_ids(seed: Any, shape: Sequence[int], size: int) -> Any:
    """int32 ids below `size`, of `shape`, mildly skewed: floor(size u^2) for uniform u, P(id = k) falls as k^-1/2."""
    on = arrays_of(seed)
    uniform = on.uniform(seed, shape)
    return on.minimum(on.int32(on.square(uniform) * size), size - 1)


def scatter(ranks: Any, size: int) -> Any:
    """The ids of `ranks`, with common and rare ids mixed: a fixed one-to-one map of 0..size-1 onto itself.

    Word lists are sorted by frequency, so their shards are touched unevenly. Lists of users or films are not sorted, so
    their shards are touched evenly.
    """
    stride = int(size * 0.618)
    while math.gcd(stride, size) != 1:
        stride += 1
    on = arrays_of(ranks)
    return on.int32(on.int64(ranks) * stride % size)


def mask_tokens(seed: Any, shape: tuple[int, int], predictions: int, vocabulary: int) -> tuple[Any, Any, Any]:
    """Token ids of `shape` (batch, sequence) for masked-language modelling, all int32.

    Returns the ids with `predictions` distinct positions per row overwritten by `MASK_ID`, these positions, and the
    overwritten ids, both of shape (batch, predictions).
    """
    on = arrays_of(seed)
    words, places = on.split(seed, 2)
    ids = zipf_ids(words, shape, vocabulary)
    values, positions = on.largest(on.uniform(places, shape), predictions)
    hidden = on.uniform(places, shape) >= values[:, -1:]
    return on.where(hidden, MASK_ID, ids), positions, on.at(ids, positions)


def bright_images(seed: Any, shape: tuple[int, int, int, int], classes: int) -> tuple[Any, Any]:
    """float32 images of `shape` (batch, height, width, channels) and int32 labels of shape (batch,).

    An image is uniform noise of unit variance, brighter for higher labels, so that a model can learn the labels.
    """
    on = arrays_of(seed)
    noise, labels = on.split(seed, 2)
    label = on.below(labels, shape[:1], classes)
    image = on.uniform(noise, shape, -math.sqrt(3), math.sqrt(3))
    return image + on.reshape(on.float32(label) / classes - 0.5, (-1, 1, 1, 1)), label

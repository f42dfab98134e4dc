"""Losses of the zoo's models: means over one replica's batch, float32 scalars."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["binary_cross_entropy", "cross_entropy"]


def cross_entropy(targets: Any, logits: Any) -> Any:
    """Mean of -log softmax(logits)[target]; int32 targets of shape (...), float32 logits of shape (..., classes)."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits))


def binary_cross_entropy(targets: Any, logits: Any) -> Any:
    """Mean logistic loss; float32 targets in [0, 1] and float32 logits of the same shape."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))

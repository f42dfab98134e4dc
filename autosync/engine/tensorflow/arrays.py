"""Cuts, joins and scales flat arrays on a device with few ops, because a step has hundreds and each takes time.

Every strategy builds all its ops again, on the client and on the op's worker. These functions therefore add no op that
would change nothing, and all ops of a graph share one constant a device for an axis or sizes.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

CONSTANTS = "constants by device"
LARGEST_INT32 = 2**31 - 1


def flat(tensor: tf.Tensor, device: str) -> tf.Tensor:
    """Flatten `tensor`, which is on `device`, to rank 1."""
    return tensor if tensor.shape.rank == 1 else _reshape(tensor, (-1,), device)


def unflatten(tensor: tf.Tensor, shape: tuple[int, ...], device: str) -> tf.Tensor:
    """Give a flat tensor the shape `shape`."""
    return tensor if len(shape) == 1 else _reshape(tensor, shape, device)


def cut(tensor: tf.Tensor, sizes: Sequence[int], device: str) -> list[tf.Tensor]:
    """Cut a flat tensor into pieces of `sizes`."""
    if len(sizes) == 1:
        return [tensor]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        if len(set(sizes)) == 1:
            return list(tf.raw_ops.Split(axis=axis, value=tensor, num_split=len(sizes)))
        wanted = _constant(device, tuple(sizes), "int32" if max(sizes) <= LARGEST_INT32 else "int64")
        return list(tf.raw_ops.SplitV(value=tensor, size_splits=wanted, axis=axis, num_split=len(sizes)))


def cut_at_run_time(tensor: tf.Tensor, sizes: Any, count: int, device: str) -> list[tf.Tensor]:
    """Cut a flat tensor into `count` pieces of `sizes`, int32 (count,), a tensor that is known only at run time."""
    if count == 1:
        return [tensor]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        return list(tf.raw_ops.SplitV(value=tensor, size_splits=sizes, axis=axis, num_split=count))


def end_to_end(parts: Sequence[tf.Tensor], device: str) -> tf.Tensor:
    """Join flat tensors to one."""
    if len(parts) == 1:
        return parts[0]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        return tf.raw_ops.ConcatV2(values=list(parts), axis=axis)


def scale(tensor: tf.Tensor, factor: float, device: str) -> tf.Tensor:
    """Multiply `tensor` by a number."""
    number = _constant(device, factor, tensor.dtype.name)
    with tf.device(device):
        return tf.raw_ops.Mul(x=tensor, y=number)


def _reshape(tensor: tf.Tensor, shape: tuple[int, ...], device: str) -> tf.Tensor:
    wanted = _constant(device, shape, "int32")
    with tf.device(device):
        return tf.raw_ops.Reshape(tensor=tensor, shape=wanted)


def _constant(device: str, value: Any, dtype: str) -> tf.Tensor:
    """Return `value` as a tensor on `device`; the graph under construction has one such tensor."""
    if tf.executing_eagerly():
        return tf.constant(value, dtype)
    graph = tf.compat.v1.get_default_graph()
    collection = graph.get_collection_ref(CONSTANTS)
    if not collection:
        collection.append({})
    known, key = collection[0], (graph, device, value, dtype)  # a graph inside this one shares the collection
    if key not in known:
        with tf.device(device), tf.control_dependencies(None):
            known[key] = tf.constant(value, dtype)
    return known[key]

"""Flat arrays cut, put together and scaled on a device, in few operations: a step has hundreds, and each takes time.

Each op is made for every strategy anew, on the client and on the worker that it is for. So nothing is done where there
is nothing to do, and what an op needs to be told (an axis, sizes) is one constant a device for all of a graph's ops.
"""

from collections.abc import Sequence
from typing import Any

CONSTANTS = "constants by device"
LARGEST_INT32 = 2**31 - 1


def flat(tensor: Any, device: str) -> Any:
    """`tensor`, which is on `device`, as one of rank 1."""
    return tensor if tensor.shape.rank == 1 else _reshaped(tensor, (-1,), device)


def shaped(tensor: Any, shape: tuple[int, ...], device: str) -> Any:
    """A flat tensor in `shape`."""
    return tensor if len(shape) == 1 else _reshaped(tensor, shape, device)


def cut(tensor: Any, sizes: Sequence[int], device: str) -> list[Any]:
    """A flat tensor in pieces of `sizes`."""
    import tensorflow as tf

    if len(sizes) == 1:
        return [tensor]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        if len(set(sizes)) == 1:
            return list(tf.raw_ops.Split(axis=axis, value=tensor, num_split=len(sizes)))
        wanted = _constant(device, tuple(sizes), "int32" if max(sizes) <= LARGEST_INT32 else "int64")
        return list(tf.raw_ops.SplitV(value=tensor, size_splits=wanted, axis=axis, num_split=len(sizes)))


def cut_at_run_time(tensor: Any, sizes: Any, count: int, device: str) -> list[Any]:
    """A flat tensor in `count` pieces of `sizes`, int32 (count,), which are known when it is cut only."""
    import tensorflow as tf

    if count == 1:
        return [tensor]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        return list(tf.raw_ops.SplitV(value=tensor, size_splits=sizes, axis=axis, num_split=count))


def end_to_end(parts: Sequence[Any], device: str) -> Any:
    """Flat tensors as one."""
    import tensorflow as tf

    if len(parts) == 1:
        return parts[0]
    axis = _constant(device, 0, "int32")
    with tf.device(device):
        return tf.raw_ops.ConcatV2(values=list(parts), axis=axis)


def scaled(tensor: Any, factor: float, device: str) -> Any:
    """`tensor` times a number."""
    import tensorflow as tf

    number = _constant(device, factor, tensor.dtype.name)
    with tf.device(device):
        return tf.raw_ops.Mul(x=tensor, y=number)


def _reshaped(tensor: Any, shape: tuple[int, ...], device: str) -> Any:
    import tensorflow as tf

    wanted = _constant(device, shape, "int32")
    with tf.device(device):
        return tf.raw_ops.Reshape(tensor=tensor, shape=wanted)


def _constant(device: str, value: Any, dtype: str) -> Any:
    """`value` on `device`; the same tensor whenever the graph that is being built asks for it."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return tf.constant(value, dtype)
    graph = tf.compat.v1.get_default_graph()
    collection = graph.get_collection_ref(CONSTANTS)
    if not collection:
        collection.append({})
    known, key = collection[0], (graph, device, value, dtype)  # a graph inside this one is given the same collection
    if key not in known:
        with tf.device(device), tf.control_dependencies(None):
            known[key] = tf.constant(value, dtype)
    return known[key]

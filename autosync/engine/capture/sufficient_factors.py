"""Sufficient factors of a gradient: finding, while a graph is traced, the two matrices that it is the product of."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

SCOPE = "gradient_tape/sufficient_factors/"  # counted with the backward pass

Shape: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[Any, Any]


def sufficient_factors(gradient: Any, shape: Shape) -> Pair | None:
    """A (K, M) and B (K, N) whose product A^T B is `gradient`, a tensor of the graph being traced, of `shape` (M, N).

    None where it is anything but one product (a sum of two, as with a regularizer or a weight used twice, a cast, the
    result of a loop), or where K is not known while tracing. What a layer computes for every step of a sequence is one
    product, over examples and steps together.
    """
    import tensorflow as tf

    if len(shape) != 2:
        return None
    with tf.name_scope(SCOPE):
        pair = _factors(gradient, shape)
    if pair is None:
        return None
    (rows, *left), (right_rows, *right) = (tuple(each.shape) for each in pair)
    same_dtype = pair[0].dtype == pair[1].dtype == gradient.dtype
    return pair if same_dtype and rows == right_rows and (*left, *right) == shape else None


def _factors(tensor: Any, shape: Shape) -> Pair | None:
    """The factors of `tensor`, behind whatever only renames or turns it."""
    operation = tensor.op
    if operation.type == "Identity":
        return _factors(operation.inputs[0], shape)
    if operation.type == "Transpose" and _static(operation.inputs[1]) == [1, 0]:
        turned = _factors(operation.inputs[0], shape[::-1])
        return turned and turned[::-1]
    if operation.type == "Reshape":
        source = operation.inputs[0]
        return _factors(source, shape) if source.op.type == "Sum" or _is_shaped(source, shape) else None
    if operation.type == "Sum":
        return _of_summed_products(operation, shape)
    if operation.type == "MatMul":
        return _of_product(operation, "transpose_a", "transpose_b")
    return _of_einsum(operation) if operation.type == "Einsum" else None


def _of_summed_products(operation: Any, shape: Shape) -> Pair | None:
    """Products of a batch of matrices, added up over the batch.

    That is how TensorFlow writes the gradient of a matrix that was multiplied with a batch of them. `operation` adds
    up what was broadcast; where what it adds up ends with the matrix' own shape, those are the axes before.
    """
    product, axes = operation.inputs
    is_of_batch = product.op.type.startswith("BatchMatMul") and _is_shaped(product, shape, last_axes=2)
    if axes.op.type != "BroadcastGradientArgs" or not is_of_batch:
        return None
    return _of_product(product.op, "adj_x", "adj_y")


def _of_product(operation: Any, turns_left: str, turns_right: str) -> Pair | None:
    left, right = operation.inputs
    if not (left.shape.is_fully_defined() and right.shape.is_fully_defined()) or left.shape.rank != right.shape.rank:
        return None
    batch = range(left.shape.rank - 2)
    row, column = left.shape.rank - 2, left.shape.rank - 1
    as_they_are, turned = (*batch, row, column), (*batch, column, row)
    return (
        _matrix(left, as_they_are if operation.get_attr(turns_left) else turned),
        _matrix(right, turned if operation.get_attr(turns_right) else as_they_are),
    )


def _of_einsum(operation: Any) -> Pair | None:
    """Two tensors summed over all indices but one of each, `abm,abn->mn` say."""
    terms, result = operation.get_attr("equation").decode().split("->")
    names = terms.split(",")
    distinct = all(len(set(each)) == len(each) for each in (*names, result))
    if len(names) != 2 or len(result) != 2 or not distinct or "." in terms:
        return None
    tensors = dict(zip(names, operation.inputs, strict=True))
    if not all(each.shape.is_fully_defined() for each in tensors.values()):
        return None
    factors = []
    for kept in result:
        of_it = [name for name in names if kept in name]
        if len(of_it) != 1:
            return None
        factors.append((of_it[0], kept))
    summed = "".join(index for index in names[0] if index not in result)
    if any(set(name) != {*summed, kept} for name, kept in factors):
        return None
    left, right = (_matrix(tensors[name], [name.index(each) for each in (*summed, kept)]) for name, kept in factors)
    return left, right


def _matrix(tensor: Any, order: Sequence[int]) -> Any:
    """`tensor` with its axes in `order`, all but the last one flattened."""
    import tensorflow as tf

    if list(order) != sorted(order):
        tensor = tf.transpose(tensor, list(order))
    sizes = tuple(tensor.shape)
    return tensor if len(sizes) == 2 else tf.reshape(tensor, [math.prod(sizes[:-1]), sizes[-1]])


def _is_shaped(tensor: Any, shape: Shape, last_axes: int | None = None) -> bool:
    """Whether `tensor`, or its `last_axes`, are known to be of `shape`."""
    if tensor.shape.rank is None:
        return False
    sizes = tuple(tensor.shape)
    return (sizes if last_axes is None else sizes[-last_axes:]) == shape


def _static(tensor: Any) -> Any:
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    return None if value is None else value.tolist()

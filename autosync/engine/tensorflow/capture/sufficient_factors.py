"""Finds the sufficient factors of a gradient while a graph is traced: two matrices whose product is the gradient."""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

SCOPE = "gradient_tape/sufficient_factors/"  # counted with the backward pass

Shape: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[Any, Any]


def sufficient_factors(gradient: Any, shape: Shape) -> Pair | None:
    """Return A (K, M) and B (K, N) whose product A^T B is `gradient`, a tensor of `shape` (M, N) in the traced graph.

    None if the gradient is not a single product (but a sum of two, as with a regularizer or a weight used twice, a
    cast, or the result of a loop), or if K is not known while tracing. The gradient of a layer that is applied to every
    step of a sequence is one product, over examples and steps together.
    """
    if len(shape) != 2:
        return None
    with tf.name_scope(SCOPE):
        pair = _factors(gradient, shape)
    if pair is None:
        return None
    (rows, *left), (right_rows, *right) = (tuple(factor.shape) for factor in pair)
    same_dtype = pair[0].dtype == pair[1].dtype == gradient.dtype
    return pair if same_dtype and rows == right_rows and (*left, *right) == shape else None


def _factors(tensor: Any, shape: Shape) -> Pair | None:
    """Return the factors of `tensor`, looking through operations that only rename, reshape or transpose it."""
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
    """Return the factors of a sum, over a batch, of products of matrices.

    TensorFlow writes the gradient of a matrix that is multiplied with a batch of matrices so. `operation` sums over the
    axes that were broadcast. If the product ends with the matrix's own shape, these are all the axes before it.
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
    """Return the factors of an einsum over all indices except one of each tensor, for example `abm,abn->mn`."""
    terms, result = operation.get_attr("equation").decode().split("->")
    names = terms.split(",")
    distinct = all(len(set(indices)) == len(indices) for indices in (*names, result))
    if len(names) != 2 or len(result) != 2 or not distinct or "." in terms:
        return None
    tensors = dict(zip(names, operation.inputs, strict=True))
    if not all(tensor.shape.is_fully_defined() for tensor in tensors.values()):
        return None
    factors = []
    for kept in result:
        with_index = [name for name in names if kept in name]
        if len(with_index) != 1:
            return None
        factors.append((with_index[0], kept))
    summed = "".join(index for index in names[0] if index not in result)
    if any(set(name) != {*summed, kept} for name, kept in factors):
        return None
    left, right = (_matrix(tensors[name], [name.index(index) for index in (*summed, kept)]) for name, kept in factors)
    return left, right


def _matrix(tensor: Any, order: Sequence[int]) -> Any:
    """Bring the axes of `tensor` into `order`, and flatten all axes except the last one."""
    if list(order) != sorted(order):
        tensor = tf.transpose(tensor, list(order))
    sizes = tuple(tensor.shape)
    return tensor if len(sizes) == 2 else tf.reshape(tensor, [math.prod(sizes[:-1]), sizes[-1]])


def _is_shaped(tensor: Any, shape: Shape, last_axes: int | None = None) -> bool:
    """Whether `tensor`, or only its `last_axes`, is known to have `shape`."""
    if tensor.shape.rank is None:
        return False
    sizes = tuple(tensor.shape)
    return (sizes if last_axes is None else sizes[-last_axes:]) == shape


def _static(tensor: Any) -> Any:
    value = tf.get_static_value(tensor)
    return None if value is None else value.tolist()

"""Builds the coarse operator graph of a traced model: operations that are heavy or read a variable, with flops."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autosync.spec import Operator

BACKWARD_SCOPE = "gradient_tape/"
PASS_THROUGH = ("Identity", "Cast", "Reshape", "Transpose", "ExpandDims")


def coarse_operators(operations: Sequence[Any], variable_of: Mapping[str, str]) -> tuple[Operator, ...]:
    """Return the operators of the forward pass in graph order.

    `operations` are a traced graph's operations in order of creation. `variable_of` names the variable of each
    placeholder operation. Light operations that read no variable are folded into the edges.
    """
    reads: dict[str, str] = dict(variable_of)  # tensors that are a variable, or a view of a variable
    sources: dict[str, tuple[str, ...]] = {}  # operation -> the coarse operators from which its value is computed
    coarse: list[Operator] = []
    for operation in operations:
        if operation.name.startswith(BACKWARD_SCOPE):
            continue
        inputs = [tensor.op.name for tensor in operation.inputs]
        if operation.type in PASS_THROUGH and inputs and inputs[0] in reads:
            reads[operation.name] = reads[inputs[0]]
            continue
        variables = tuple(dict.fromkeys(reads[name] for name in inputs if name in reads))
        before = tuple(dict.fromkeys(source for name in inputs for source in sources.get(name, ())))
        flops = _flops(operation)
        if (flops or variables) and operation.type not in ("Shape", "StridedSlice"):
            coarse.append(Operator(operation.name, operation.type, flops, before, variables))
            before = (operation.name,)
        sources[operation.name] = before
    return tuple(coarse)


def _flops(operation: Any) -> float:
    """Return the forward floating-point operations (a multiply-add counts 2); 0 for light or unknown operations."""
    counter = _COUNTERS.get(operation.type)
    if counter is None:
        return 0.0
    shapes = [tensor.shape for tensor in [*operation.inputs, *operation.outputs]]
    if any(not shape.is_fully_defined() for shape in shapes):
        return 0.0
    return float(counter(operation))


def _matmul(operation: Any) -> float:
    rows, columns = operation.inputs[0].shape[-2:]
    inner = rows if _attribute(operation, ("transpose_a", "adj_x")) else columns
    return 2.0 * operation.outputs[0].shape.num_elements() * inner


def _convolution(operation: Any) -> float:
    """Return the flops of a convolution: every output element sums a window times the input channels of its group."""
    *window, channels, _ = operation.inputs[1].shape
    return 2.0 * operation.outputs[0].shape.num_elements() * math.prod(window) * channels


def _depthwise(operation: Any) -> float:
    return 2.0 * operation.outputs[0].shape.num_elements() * math.prod(operation.inputs[1].shape[:2])


def _einsum(operation: Any) -> float:
    """Return two flops for every combination of the equation's distinct indices."""
    equation = operation.get_attr("equation").decode()
    terms = equation.split("->")[0].split(",")
    if "." in equation:
        return 2.0 * operation.outputs[0].shape.num_elements() * int(operation.inputs[0].shape[-1])
    sizes = {
        index: size
        for term, tensor in zip(terms, operation.inputs, strict=True)
        for index, size in zip(term, tensor.shape, strict=True)
    }
    return 2.0 * math.prod(sizes.values())


def _attribute(operation: Any, names: tuple[str, ...]) -> bool:
    held = operation.node_def.attr
    return any(name in held and held[name].b for name in names)


_COUNTERS = {
    "MatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "DepthwiseConv2dNative": _depthwise,
    "Einsum": _einsum,
}

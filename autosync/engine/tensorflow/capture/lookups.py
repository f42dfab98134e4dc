"""Lookups in sparse variables: finds the rows that a step reads, and builds a gradient function on only those rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.engine.core.touched_rows import SAMPLED_BATCHES, TouchedRows, mean_rows
from autosync.engine.tensorflow.capture.graph_function import GraphFunction

HARMLESS = ("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "NoOp")


@dataclass(frozen=True)
class Lookup:
    """One gather of rows: the operation's name, and the name and the spec of the tensor of row numbers."""

    gather: str
    ids: str
    ids_spec: Any  # tf.TensorSpec


def find_lookups(variable: Any, batch: Sequence[Any]) -> list[Lookup] | None:
    """Return the lookups in `variable` (a placeholder), or None if the variable is read in another way too.

    Row numbers must depend on the batch alone, so that they are known before any value is pulled.
    """
    lookups = []
    allowed = {tensor.op.name for tensor in batch}
    consumers = [(operation, variable) for operation in variable.consumers()]
    while consumers:
        operation, tensor = consumers.pop(0)
        if operation.type == "Identity":
            consumers += [(consumer, operation.outputs[0]) for consumer in operation.outputs[0].consumers()]
        elif operation.type == "GatherV2" and operation.inputs[0] is tensor and _along_axis_0(operation):
            ids = operation.inputs[1]
            if not sources_of(ids) <= allowed:
                return None
            lookups.append(Lookup(operation.name, ids.name, tf.TensorSpec(ids.shape, ids.dtype)))
        elif operation.type not in HARMLESS:
            return None
    return lookups or None


def _along_axis_0(gather: Any) -> bool:
    axis = tf.get_static_value(gather.inputs[2])
    return axis is not None and int(axis) == 0 and gather.get_attr("batch_dims") == 0


def sources_of(tensor: Any) -> set[str]:
    """Return the names of the placeholders from which `tensor` is computed, and of unrepeatable operations."""
    seen: dict[str, Any] = {}
    stack = [tensor.op]
    while stack:
        operation = stack.pop()
        if operation.name not in seen:
            seen[operation.name] = operation
            stack += [source.op for source in operation.inputs]
            stack += list(operation.control_inputs)
    return {name for name, operation in seen.items() if operation.type == "Placeholder" or _may_differ(operation)}


def _may_differ(operation: Any) -> bool:
    """Whether the operation has state, such as a random generator, and may give other row numbers in another run."""
    return operation.op_def.is_stateful and operation.type != "Assert"


def lookup_function(traced: GraphFunction, batch_inputs: Sequence[str], lookups: Sequence[Lookup]) -> GraphFunction:
    """Return the part of the traced gradient function that computes the row numbers of all lookups from the batch."""
    graph_def = tf.compat.v1.GraphDef.FromString(traced.graph)
    wanted = [name.split(":")[0] for name in (*(lookup.ids for lookup in lookups), *batch_inputs)]
    needed = _ancestors(graph_def, wanted)
    part = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    part.node.extend(node for node in graph_def.node if node.name in needed)
    graph = part.SerializeToString(deterministic=True)
    return GraphFunction(graph, tuple(batch_inputs), tuple(lookup.ids for lookup in lookups))


def _ancestors(graph_def: Any, wanted: Sequence[str]) -> set[str]:
    """Return the names of the `wanted` nodes and of all nodes from which they are computed."""
    nodes = {node.name: node for node in graph_def.node}
    needed: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += [source.lstrip("^").split(":")[0] for source in nodes[name].input]
    return needed


def compact_gradient(
    traced: GraphFunction, lookups: Sequence[Lookup], tables: Mapping[str, Sequence[int]]
) -> GraphFunction:
    """Rewrite `traced` so that every lookup reads given rows at given positions, instead of whole tables at row
    numbers.

    `tables` has the shape of each sparse variable by the name of its input. The positions become the last inputs.
    """
    graph_def = tf.compat.v1.GraphDef.FromString(traced.graph)
    nodes = {node.name: node for node in graph_def.node}
    for name, shape in tables.items():
        placeholder = nodes[name.split(":")[0]]
        placeholder.attr["shape"].shape.CopyFrom(tf.TensorShape([None, *shape[1:]]).as_proto())
        placeholder.attr.pop("_output_shapes", None)
    positions = []
    for index, lookup in enumerate(lookups):
        node = graph_def.node.add(name=f"positions_{index}", op="Placeholder")
        node.attr["dtype"].type = lookup.ids_spec.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(lookup.ids_spec.shape.as_proto())
        nodes[lookup.gather].input[1] = node.name
        positions.append(f"{node.name}:0")
    graph = graph_def.SerializeToString(deterministic=True)
    return GraphFunction(graph, (*traced.inputs, *positions), traced.outputs)


def touched_rows(batch: GraphFunction, lookups: GraphFunction, lookup_of: Sequence[int]) -> dict[int, TouchedRows]:
    """Return the touched rows by variable: the means over a few sampled batches, and over pairs of these batches."""
    if not lookup_of:
        return {}
    make, find = batch.callable(), lookups.callable()
    touched: dict[int, list[np.ndarray[Any, Any]]] = {}
    for seed in range(SAMPLED_BATCHES):
        row_numbers = find(*make(tf.constant([seed, 0], tf.int32)))
        for variable in sorted(set(lookup_of)):
            ids = [
                np.ravel(numbers) for numbers, owner in zip(row_numbers, lookup_of, strict=True) if owner == variable
            ]
            touched.setdefault(variable, []).append(np.unique(np.concatenate(ids)))
    return {variable: mean_rows(of_batches) for variable, of_batches in touched.items()}

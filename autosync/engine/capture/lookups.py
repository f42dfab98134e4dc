"""Lookups in sparse variables: which rows a step reads, and a gradient function that is given only those rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.engine.capture.graph_function import GraphFunction

SAMPLED_BATCHES = 4

HARMLESS = ("Shape", "ShapeN", "Size", "Rank", "ZerosLike", "NoOp")


@dataclass(frozen=True)
class Lookup:
    """One gather of rows: the operation's name, the name of the tensor of row numbers, and that tensor's spec."""

    gather: str
    ids: str
    ids_spec: Any  # tf.TensorSpec


def find_lookups(variable: Any, batch: Sequence[Any]) -> list[Lookup] | None:
    """The lookups in `variable` (a placeholder), or None when it is read in any other way.

    Row numbers must follow from the batch alone, so that they are known before any value is pulled.
    """
    import tensorflow as tf

    found = []
    allowed = {tensor.op.name for tensor in batch}
    consumers = [(operation, variable) for operation in variable.consumers()]
    while consumers:
        operation, tensor = consumers.pop(0)
        if operation.type == "Identity":
            consumers += [(each, operation.outputs[0]) for each in operation.outputs[0].consumers()]
        elif operation.type == "GatherV2" and operation.inputs[0] is tensor and _along_axis_0(operation):
            ids = operation.inputs[1]
            if not sources_of(ids) <= allowed:
                return None
            found.append(Lookup(operation.name, ids.name, tf.TensorSpec(ids.shape, ids.dtype)))
        elif operation.type not in HARMLESS:
            return None
    return found or None


def _along_axis_0(gather: Any) -> bool:
    import tensorflow as tf

    axis = tf.get_static_value(gather.inputs[2])
    return axis is not None and int(axis) == 0 and gather.get_attr("batch_dims") == 0


def sources_of(tensor: Any) -> set[str]:
    """Names of the placeholders that `tensor` is computed from, and of operations that may differ from run to run."""
    seen: dict[str, Any] = {}
    stack = [tensor.op]
    while stack:
        operation = stack.pop()
        if operation.name not in seen:
            seen[operation.name] = operation
            stack += [each.op for each in operation.inputs]
            stack += list(operation.control_inputs)
    return {name for name, each in seen.items() if each.type == "Placeholder" or _may_differ(each)}


def _may_differ(operation: Any) -> bool:
    """Whether the operation keeps state, such as a random generator; run once more it may give other row numbers."""
    return operation.op_def.is_stateful and operation.type != "Assert"


def lookup_function(traced: GraphFunction, batch_inputs: Sequence[str], lookups: Sequence[Lookup]) -> GraphFunction:
    """The part of the traced gradient function that computes every lookup's row numbers from the batch."""
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef.FromString(traced.graph)
    wanted = [name.split(":")[0] for name in (*(each.ids for each in lookups), *batch_inputs)]
    needed = _needed_nodes(graph_def, wanted)
    part = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    part.node.extend(node for node in graph_def.node if node.name in needed)
    graph = part.SerializeToString(deterministic=True)
    return GraphFunction(graph, tuple(batch_inputs), tuple(each.ids for each in lookups))


def _needed_nodes(graph_def: Any, wanted: Sequence[str]) -> set[str]:
    """Names of the nodes that the `wanted` ones are computed from, themselves included."""
    nodes = {node.name: node for node in graph_def.node}
    needed: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += [each.lstrip("^").split(":")[0] for each in nodes[name].input]
    return needed


def compact_gradient(
    traced: GraphFunction, lookups: Sequence[Lookup], tables: Mapping[str, Sequence[int]]
) -> GraphFunction:
    """`traced` with every lookup reading given rows at given positions, instead of whole tables at row numbers.

    `tables` holds the shape of each sparse variable by its input's name; the positions become inputs at the end.
    """
    import tensorflow as tf

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


def rows_per_step(batch: GraphFunction, lookups: GraphFunction, lookup_of: Sequence[int]) -> dict[int, float]:
    """Distinct rows touched by one replica's batch, by variable: the mean over a few sampled batches."""
    import tensorflow as tf

    if not lookup_of:
        return {}
    make, find = batch.callable(), lookups.callable()
    counts: dict[int, list[int]] = {}
    for seed in range(SAMPLED_BATCHES):
        found = find(*make(tf.constant([seed, 0], tf.int32)))
        for variable in sorted(set(lookup_of)):
            ids = [np.ravel(each) for each, of in zip(found, lookup_of, strict=True) if of == variable]
            counts.setdefault(variable, []).append(len(np.unique(np.concatenate(ids))))
    return {variable: float(np.mean(each)) for variable, each in counts.items()}

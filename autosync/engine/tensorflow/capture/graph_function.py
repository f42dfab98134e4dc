"""Serializes a TensorFlow function: a GraphDef with named inputs and outputs, which includes its constants."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.engine.tensorflow.no_control_dependencies import run_independently
from autosync.errors import ModelError

SUFFIX_LENGTH = 12

MOST_CONSTANT_BYTES = 1 << 26
"""The limit of constants in bytes. Every strategy sends them to every worker again, and a graph must be under 2 GB."""


@dataclass(frozen=True)
class GraphFunction:
    """A function that any TensorFlow process can run without the Python code that was traced.

    `inputs` and `outputs` are tensor names (`name:0`) in the serialized `graph`.
    """

    graph: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def trace(cls, function: Callable[..., Any], specs: Sequence[Any]) -> GraphFunction:
        """Trace `function`, which takes tensors of the flat `specs` and returns a flat list of tensors.

        An eager tensor that the function captures, such as a layer's constant, becomes a constant of the graph. Raises
        `ModelError` if the function captures anything else (a variable, a table), or if the constants are too large.
        """
        return cls.trace_with_graph(function, specs)[0]

    @classmethod
    def trace_with_graph(
        cls, function: Callable[..., Any], specs: Sequence[Any], layers: Collection[str] = ()
    ) -> tuple[GraphFunction, Any]:
        """Trace like `trace`, and also return the traced `tf.Graph` for inspection.

        In that graph a captured constant is another placeholder in `inputs`, after the placeholders of `specs`. An
        error names the layer of `layers` that reads the captured object.
        """
        import tensorflow as tf

        concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
        graph_def = concrete.graph.as_graph_def()
        _embed(graph_def, _constants(concrete.graph, layers))
        traced = cls(
            graph=graph_def.SerializeToString(deterministic=True),
            inputs=tuple(tensor.name for tensor in concrete.inputs[: len(specs)]),
            outputs=tuple(tensor.name for tensor in concrete.outputs),
        )
        return traced, concrete.graph

    def callable(self) -> Callable[..., list[Any]]:
        """Load the function into this process. It maps flat tensors to a list, and can be called in a `tf.function`."""
        import tensorflow as tf

        graph_def = tf.compat.v1.GraphDef.FromString(self.graph)
        _rename_library(graph_def, hashlib.sha256(self.graph).hexdigest()[:SUFFIX_LENGTH])
        wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])
        element = wrapped.graph.as_graph_element
        whole = wrapped.prune([element(name) for name in self.inputs], [element(name) for name in self.outputs])
        is_stateful = any(operation.op_def.is_stateful for operation in whole.graph.get_operations())
        return lambda *inputs: whole(*inputs) if tf.executing_eagerly() else _call_as_op(whole, is_stateful, inputs)


def _constants(graph: Any, layers: Collection[str]) -> dict[str, Any]:
    """Return the captured eager tensors of the graph, by the names of their placeholders."""
    constants = {}
    for outside, placeholder in graph.captures:
        if outside.dtype.name in ("resource", "variant"):
            raise ModelError(_refusal(_reader(placeholder, layers), _plain_variable(graph, outside)))
        constants[placeholder.op.name] = outside
    size = sum(constant.dtype.size * constant.shape.num_elements() for constant in constants.values())
    if size > MOST_CONSTANT_BYTES:
        largest = max(graph.captures, key=lambda pair: pair[0].shape.num_elements())[1]
        raise ModelError(
            f"A model's constants may take {MOST_CONSTANT_BYTES >> 20} MB, but they take {size / 2**20:.0f} MB, the "
            f"largest in {_reader(largest, layers)}; make it a weight that is not trainable."
        )
    return constants


def _reader(placeholder: Any, layers: Collection[str]) -> str:
    """Name the innermost layer in which a graph first reads a captured tensor, or else the operation."""
    name = placeholder.consumers()[0].name if placeholder.consumers() else placeholder.op.name
    *scopes, _ = name.split("/")
    for scope in reversed(scopes):
        for name_of_layer in (scope, re.sub(r"_\d+$", "", scope)):  # TensorFlow numbers a scope that is entered again
            if name_of_layer in layers:
                return f"layer {name_of_layer!r}"
    return f"the operation {name!r}"


def _plain_variable(graph: Any, handle: Any) -> str | None:
    """Describe the variable of a captured handle; None if the handle belongs to something else, such as a table."""
    for variable in graph.variables:
        if variable.handle is handle:
            return f"{variable.dtype.name} tf.Variable of shape {tuple(variable.shape)}"
    return None


def _refusal(reader: str, variable: str | None) -> str:
    """The message that refuses a `variable`, or a table if None, that `reader` captures."""
    if variable is not None:
        return (
            f"A model's state must be in Keras variables that its layers hold, but {reader} reads a plain {variable}; "
            "make it with add_weight, give random functions a keras.random.SeedGenerator of the layer, or leave it out "
            "of the model."
        )
    return (
        f"A replica has no tables, but {reader} looks values up in one, as IntegerLookup, StringLookup and "
        "TextVectorization do; apply that layer to the data before training, as in dataset.map(lambda x, y: "
        "(layer(x), y)), and leave it out of the model."
    )


def _embed(graph_def: Any, constants: Mapping[str, Any]) -> None:
    """Replace placeholders by the constants of the same names."""
    import tensorflow as tf

    for node in graph_def.node:
        if node.name in constants:
            value = constants[node.name].numpy()
            node.op = "Const"
            node.attr.clear()
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, constants[node.name].dtype))
            node.attr["dtype"].type = constants[node.name].dtype.as_datatype_enum


def _rename_library(graph_def: Any, suffix: str) -> None:
    """Make the names of the functions in a graph's library unique to the graph.

    A process knows only one function of a name, and tracing numbers functions from the start in every process. A
    function that this process traced earlier still has its old names after it is simplified.
    """
    library = graph_def.library
    names = {function.signature.name: f"{function.signature.name}_{suffix}" for function in library.function}
    if not names:
        return
    for gradient in library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
    for function in library.function:
        function.signature.name = names[function.signature.name]
        _rename_attributes(function.attr, names)
    for node in (*graph_def.node, *(node for function in library.function for node in function.node_def)):
        node.op = names.get(node.op, node.op)
        _rename_attributes(node.attr, names)


def _rename_attributes(attributes: Any, names: Mapping[str, str]) -> None:
    for value in attributes.values():
        for called in (*([value.func] if value.HasField("func") else []), *value.list.func):
            called.name = names.get(called.name, called.name)
            _rename_attributes(called.attr, names)
        text = value.s.decode(errors="replace") if value.s else ""
        if text in names:  # a forward function has an attribute with the name of its backward function
            value.s = names[text].encode()


def _call_as_op(function: Any, is_stateful: bool, inputs: Sequence[Any]) -> list[Any]:
    """Add a call of `function` as one op to the graph under construction.

    An ordinary Python call would first look for a signature with names, which costs milliseconds a call, and a step has
    hundreds of calls.
    """
    import tensorflow as tf

    function.add_to_graph(tf.compat.v1.get_default_graph())
    call = tf.raw_ops.StatefulPartitionedCall if is_stateful else tf.raw_ops.PartitionedCall
    outputs = call(args=list(inputs), Tout=[output.dtype for output in function.outputs], f=function)
    if is_stateful:
        run_independently(outputs[0].op)  # the function holds no variable, and replicas' calls are independent
    for output, known in zip(outputs, function.outputs, strict=True):
        output.set_shape(known.shape)
    return list(outputs)


# Graph optimizers whose results are valid on every device. Fused kernels are left out, because the graph may run
# elsewhere.
OPTIMIZERS = ("pruning", "function", "common_subgraph_elimination", "constfold", "shape", "arithmetic", "dependency")

SOME_CPU = "/job:any/device:CPU:0"
"""The device that powers are assigned to while graphs are optimized.

Only on CPUs does the optimizer replace x^3, as in GELU, by products. This pays on every device: three such powers took
a sixth of the processor time of a step of bert-mini.
"""


def simplify(function: GraphFunction, kept: Sequence[str] = ()) -> GraphFunction:
    """Fold constants and share common parts of a function, which halves the nodes of a transformer.

    The graph keeps the tensors named `kept`, so that another function can return them.

    Every trial instantiates the graph once a replica, so the graph's size is most of the cost of switching strategies.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import meta_graph_pb2
    from tensorflow.python.grappler import tf_optimizer

    graph = meta_graph_pb2.MetaGraphDef()
    graph.graph_def.ParseFromString(function.graph)
    for node in graph.graph_def.node:
        if node.op == "Pow" and not node.device:
            node.device = SOME_CPU
    ends = graph.collection_def["train_op"].node_list.value
    ends.extend([*function.inputs, *function.outputs, *kept])
    config = tf.compat.v1.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    rewrites.optimizers.extend(OPTIMIZERS)
    rewrites.min_graph_nodes = -1
    optimized = tf_optimizer.OptimizeGraph(config, graph)
    for node in optimized.node:
        if node.device == SOME_CPU:
            node.device = ""
    return GraphFunction(optimized.SerializeToString(deterministic=True), function.inputs, function.outputs)

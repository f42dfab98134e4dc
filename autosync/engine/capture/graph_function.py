"""A TensorFlow function as plain bytes: a GraphDef with named inputs and outputs, in which constants are by value."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.engine.independent import run_independently
from autosync.errors import ModelError

SUFFIX_LENGTH = 12

MOST_CONSTANT_BYTES = 1 << 26
"""The most bytes of constants: each strategy's graph sends them to each worker again, and must be under 2 GB."""


@dataclass(frozen=True)
class GraphFunction:
    """A function that any TensorFlow process can run without the Python code it was traced from.

    `inputs` and `outputs` are tensor names (`name:0`) in the serialized `graph`.
    """

    graph: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def trace(cls, function: Callable[..., Any], specs: Sequence[Any]) -> GraphFunction:
        """Trace `function` over flat tensor `specs`; it returns a flat list of tensors.

        An eager tensor that it reads from outside, as a layer's own constant, becomes a constant of the graph. Raises
        `ModelError` for anything else that it reads from there (a variable, a table), or if constants are too large.
        """
        return cls.trace_with_graph(function, specs)[0]

    @classmethod
    def trace_with_graph(
        cls, function: Callable[..., Any], specs: Sequence[Any], layers: Collection[str] = ()
    ) -> tuple[GraphFunction, Any]:
        """Trace as `trace` does, and give the traced `tf.Graph` too, for those who want to look into it.

        In that graph a constant from outside is one more placeholder among `inputs`, after those of `specs`. A refusal
        names the one of `layers` that reads it.
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
        """The function for this process: flat tensors in, a list of tensors out; it can be used in a `tf.function`."""
        import tensorflow as tf

        graph_def = tf.compat.v1.GraphDef.FromString(self.graph)
        _rename_library(graph_def, hashlib.sha256(self.graph).hexdigest()[:SUFFIX_LENGTH])
        wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])
        element = wrapped.graph.as_graph_element
        whole = wrapped.prune([element(name) for name in self.inputs], [element(name) for name in self.outputs])
        is_stateful = any(operation.op_def.is_stateful for operation in whole.graph.get_operations())
        return lambda *inputs: whole(*inputs) if tf.executing_eagerly() else _embedded(whole, is_stateful, inputs)


def _constants(graph: Any, layers: Collection[str]) -> dict[str, Any]:
    """The eager tensor that each of the graph's placeholders for captures stands for, by the placeholder's name."""
    constants = {}
    for outside, placeholder in graph.captures:
        if outside.dtype.name in ("resource", "variant"):
            raise ModelError(_refusal(_reader(placeholder, layers), _plain_variable(graph, outside)))
        constants[placeholder.op.name] = outside
    size = sum(each.dtype.size * each.shape.num_elements() for each in constants.values())
    if size > MOST_CONSTANT_BYTES:
        largest = max(graph.captures, key=lambda pair: pair[0].shape.num_elements())[1]
        raise ModelError(
            f"A model's constants may take {MOST_CONSTANT_BYTES >> 20} MB, but they take {size / 2**20:.0f} MB, the "
            f"largest in {_reader(largest, layers)}; make it a weight that is not trainable."
        )
    return constants


def _reader(placeholder: Any, layers: Collection[str]) -> str:
    """The innermost layer in which a graph first reads a tensor from outside, or else the operation."""
    name = placeholder.consumers()[0].name if placeholder.consumers() else placeholder.op.name
    *scopes, _ = name.split("/")
    for scope in reversed(scopes):
        for each in (scope, re.sub(r"_\d+$", "", scope)):  # TensorFlow numbers a scope that is entered again
            if each in layers:
                return f"layer {each!r}"
    return f"the operation {name!r}"


def _plain_variable(graph: Any, handle: Any) -> str | None:
    """The variable that a handle from outside belongs to, in words; None if it belongs to a table, say."""
    for variable in graph.variables:
        if variable.handle is handle:
            return f"{variable.dtype.name} tf.Variable of shape {tuple(variable.shape)}"
    return None


def _refusal(reader: str, variable: str | None) -> str:
    """The sentence that refuses a tensor which `reader` reads from outside of the model's variables."""
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
    """Put constants in the places of the placeholders of their names."""
    import tensorflow as tf

    for node in graph_def.node:
        if node.name in constants:
            value = constants[node.name].numpy()
            node.op = "Const"
            node.attr.clear()
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, constants[node.name].dtype))
            node.attr["dtype"].type = constants[node.name].dtype.as_datatype_enum


def _rename_library(graph_def: Any, suffix: str) -> None:
    """Give the functions that a graph brings along names of its own.

    A process knows one function of a name, and tracing numbers them again in every process. A function that was
    traced here before and is simplified now has the old names too.
    """
    library = graph_def.library
    names = {each.signature.name: f"{each.signature.name}_{suffix}" for each in library.function}
    if not names:
        return
    for each in library.gradient:
        each.function_name = names.get(each.function_name, each.function_name)
        each.gradient_func = names.get(each.gradient_func, each.gradient_func)
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
        if text in names:  # a forward function tells the name of its backward one
            value.s = names[text].encode()


def _embedded(function: Any, is_stateful: bool, inputs: Sequence[Any]) -> list[Any]:
    """A call of `function` as one op of the graph being built.

    Calling it as Python does would look for a signature with names first, which costs milliseconds a call; a step has
    hundreds.
    """
    import tensorflow as tf

    function.add_to_graph(tf.compat.v1.get_default_graph())
    call = tf.raw_ops.StatefulPartitionedCall if is_stateful else tf.raw_ops.PartitionedCall
    outputs = call(args=list(inputs), Tout=[each.dtype for each in function.outputs], f=function)
    if is_stateful:
        run_independently(outputs[0].op)  # it holds no variable, and no replica's call depends on another's
    for output, known in zip(outputs, function.outputs, strict=True):
        output.set_shape(known.shape)
    return list(outputs)


# The optimizers whose results hold on every device; fused kernels are left out, since the graph may run elsewhere.
OPTIMIZERS = ("pruning", "function", "common_subgraph_elimination", "constfold", "shape", "arithmetic", "dependency")

SOME_CPU = "/job:any/device:CPU:0"
"""The device that powers are said to be on while graphs are optimized.

Only on CPUs is x^3, as in GELU, taken apart into products. It pays anywhere: three such powers took a sixth of the
processor's time of a step of bert-mini.
"""


def simplified(function: GraphFunction, kept: Sequence[str] = ()) -> GraphFunction:
    """The same function with constants folded and common parts shared; half the nodes for a transformer.

    Its graph still has the tensors named `kept`, which another function may give back.

    Every trial instantiates the graph once a replica, so its size is most of what switching strategies costs.
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

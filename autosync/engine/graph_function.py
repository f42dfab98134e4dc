"""A TensorFlow function as plain bytes: a GraphDef with named inputs and outputs, free of captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosync.engine.independent import run_independently
from autosync.errors import ModelError

__all__ = ["GraphFunction"]


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

        Raises `ModelError` when the function captures a variable or a tensor from outside.
        """
        return cls.trace_with_graph(function, specs)[0]

    @classmethod
    def trace_with_graph(cls, function: Callable[..., Any], specs: Sequence[Any]) -> tuple[GraphFunction, Any]:
        """As `trace`, with the traced `tf.Graph` beside, for those who want to look into it."""
        import tensorflow as tf

        concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
        captured = concrete.captured_inputs
        if captured:
            first = f"a {captured[0].dtype.name} tensor of shape {tuple(captured[0].shape)}"
            raise ModelError(
                f"A captured function must get all its tensors as arguments, but it reads {first} "
                f"({len(captured)} in all) from outside; keep constants as NumPy arrays and state in Keras variables."
            )
        traced = cls(
            graph=concrete.graph.as_graph_def().SerializeToString(deterministic=True),
            inputs=tuple(tensor.name for tensor in concrete.inputs),
            outputs=tuple(tensor.name for tensor in concrete.outputs),
        )
        return traced, concrete.graph

    def callable(self) -> Callable[..., list[Any]]:
        """The function for this process: flat tensors in, a list of tensors out. Usable in a `tf.function`."""
        import tensorflow as tf

        graph_def = tf.compat.v1.GraphDef.FromString(self.graph)
        wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])
        element = wrapped.graph.as_graph_element
        whole = wrapped.prune([element(name) for name in self.inputs], [element(name) for name in self.outputs])
        is_stateful = any(operation.op_def.is_stateful for operation in whole.graph.get_operations())
        return lambda *inputs: whole(*inputs) if tf.executing_eagerly() else _embedded(whole, is_stateful, inputs)


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

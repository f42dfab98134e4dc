"""Simplifying a captured graph once, so that no trial has to: TensorFlow's own graph optimizer, ahead of time."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.engine.graph_function import GraphFunction

__all__ = ["simplified"]

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

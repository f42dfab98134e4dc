"""Example models and clusters for tests, built without TensorFlow, Ray or files."""

from __future__ import annotations

import itertools
from dataclasses import replace

from autosync.spec import (
    ClusterSpec,
    Figure,
    LaterRate,
    Link,
    ModelProfile,
    ModelSpec,
    Node,
    Operator,
    Variable,
    VariableUse,
)

__all__ = [
    "bert_like_model",
    "changing",
    "drawn_model",
    "gpu_cluster",
    "local_cluster",
    "mixed_precision_model",
    "mlp_model",
    "ncf_like_model",
    "prime_model",
    "rack_cluster",
    "scalar_model",
    "star_cluster",
    "tied_model",
    "uneven_cluster",
    "up_slower",
]

Shapes = list[tuple[str, tuple[int, ...]]]


def _variables(
    shapes: Shapes, sparse_rows: dict[str, float] | None = None, dtype: str = "float32"
) -> tuple[Variable, ...]:
    """Variables in graph order; gradients become ready in reverse order, as in a plain backward pass."""
    rows = sparse_rows or {}
    last = len(shapes) - 1
    return tuple(
        Variable(name, shape, dtype, last - index, sparse=name in rows, rows_per_step=rows.get(name))
        for index, (name, shape) in enumerate(shapes)
    )


def _chain(layers: list[tuple[str, str, float, tuple[str, ...]]]) -> tuple[Operator, ...]:
    """Operators (name, kind, flops, variables); each reads the output of the previous one."""
    operators: list[Operator] = []
    for name, kind, flops, variables in layers:
        inputs = (operators[-1].name,) if operators else ()
        operators.append(Operator(name, kind, flops, inputs, variables))
    return tuple(operators)


def mlp_model(widths: tuple[int, ...] = (64, 256, 256, 10), batch_size: int = 32) -> ModelSpec:
    """Dense layers `dense_0`, `dense_1`, ... with a kernel and a bias each (6 variables, 0.35 MB by default)."""
    shapes: Shapes = []
    layers = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        name = f"dense_{index}"
        shapes += [(f"{name}/kernel", (inputs, outputs)), (f"{name}/bias", (outputs,))]
        layers.append((name, "dense", 2.0 * batch_size * inputs * outputs, (f"{name}/kernel", f"{name}/bias")))
    return ModelSpec("mlp", batch_size, "SGD(learning_rate=0.01)", 0, _variables(shapes), _chain(layers))


def _encoder_layer(name: str, width: int) -> Shapes:
    shapes: Shapes = []
    for part in ("query", "key", "value", "output"):
        shapes += [(f"{name}/attention/{part}/kernel", (width, width)), (f"{name}/attention/{part}/bias", (width,))]
    shapes += [(f"{name}/attention_norm/gamma", (width,)), (f"{name}/attention_norm/beta", (width,))]
    shapes += [(f"{name}/intermediate/kernel", (width, 4 * width)), (f"{name}/intermediate/bias", (4 * width,))]
    shapes += [(f"{name}/output/kernel", (4 * width, width)), (f"{name}/output/bias", (width,))]
    return [*shapes, (f"{name}/output_norm/gamma", (width,)), (f"{name}/output_norm/beta", (width,))]


def bert_like_model(layers: int = 4, width: int = 128, vocabulary: int = 8192, sparse: bool = True) -> ModelSpec:
    """Embeddings, `layers` encoder layers of 16 variables, a pooler and a head: 75 variables, 7 MB by default.

    The token embedding's gradient is sparse (700 rows a step) unless `sparse` is False.
    """
    token = "embeddings/token"
    shapes: Shapes = [
        (token, (vocabulary, width)),
        ("embeddings/position", (128, width)),
        ("embeddings/segment", (2, width)),
    ]
    shapes += [("embeddings/norm/gamma", (width,)), ("embeddings/norm/beta", (width,))]
    steps = [("embeddings", "embedding", 1e5, tuple(name for name, _ in shapes))]
    tokens = 8 * 128
    for index in range(layers):
        layer = _encoder_layer(f"layer_{index}", width)
        shapes += layer
        steps.append((f"layer_{index}", "transformer", 24.0 * tokens * width * width, tuple(name for name, _ in layer)))
    head: Shapes = [("pooler/kernel", (width, width)), ("pooler/bias", (width,))]
    head += [("head/transform/kernel", (width, width)), ("head/transform/bias", (width,))]
    head += [("head/norm/gamma", (width,)), ("head/norm/beta", (width,))]
    steps.append(("head", "dense", 4.0 * tokens * width * width, tuple(name for name, _ in head)))
    rows = {token: 700.0} if sparse else {}
    return ModelSpec("bert-like", 8, "Adam(learning_rate=0.0001)", 2, _variables(shapes + head, rows), _chain(steps))


def tied_model(rows: int = 997, width: int = 8, touched: float = 40.0) -> ModelSpec:
    """A table that is looked up first and multiplied with last, a matrix and a bias, with a profile."""
    shapes: Shapes = [("table", (rows, width)), ("hidden", (width, width)), ("bias", (rows,))]
    ready, read = {"table": 1.0, "hidden": 0.9, "bias": 0.1}, {"table": 0.05, "hidden": 0.1, "bias": 0.9}
    uses = (VariableUse("table", 0.05, 1.0, touched), VariableUse("table", 0.8, 0.2))
    profile = ModelProfile(0.1, 0.2, ready, read, uses)
    return ModelSpec("tied", 8, "Adam", 2, _variables(shapes, {}), profile=profile)


def drawn_model(model: ModelSpec, ratio: float = 1.7) -> ModelSpec:
    """The model with known rows of two replicas: `ratio` times the rows of one."""
    variables = [
        variable if variable.rows_per_step is None else replace(variable, rows_of_two=ratio * variable.rows_per_step)
        for variable in model.variables
    ]
    return replace(model, variables=tuple(variables))


def copied_model(model: ModelSpec) -> ModelSpec:
    """The model on an engine whose replicas keep copies of its sparse variables."""
    return replace(model, variables=tuple(replace(variable, copied=variable.sparse) for variable in model.variables))


def ncf_like_model(users: int = 6040, items: int = 3706, width: int = 32) -> ModelSpec:
    """Neural collaborative filtering: four sparse embeddings and a small dense tower (12 variables)."""
    shapes: Shapes = [
        ("gmf/user", (users, width)),
        ("gmf/item", (items, width)),
        ("mlp/user", (users, 2 * width)),
        ("mlp/item", (items, 2 * width)),
    ]
    rows = {"gmf/user": 230.0, "gmf/item": 190.5, "mlp/user": 230.0, "mlp/item": 190.5}
    steps = [("embeddings", "embedding", 1e4, tuple(rows))]
    for index, (inputs, outputs) in enumerate([(4 * width, 2 * width), (2 * width, width), (width, width // 2)]):
        kernel, bias = f"tower_{index}/kernel", f"tower_{index}/bias"
        shapes += [(kernel, (inputs, outputs)), (bias, (outputs,))]
        steps.append((f"tower_{index}", "dense", 2.0 * 256 * inputs * outputs, (kernel, bias)))
    shapes += [("predict/kernel", (width + width // 2, 1)), ("predict/bias", (1,))]
    steps.append(("predict", "dense", 512.0 * (width + width // 2), ("predict/kernel", "predict/bias")))
    return ModelSpec("ncf-like", 256, "Adam(learning_rate=0.001)", 2, _variables(shapes, rows), _chain(steps))


def prime_model(rows: int = 138_493, width: int = 16) -> ModelSpec:
    """MovieLens-20M's prime number of users as a sparse embedding, and a dense layer of prime width."""
    shapes: Shapes = [("user/embedding", (rows, width)), ("dense/kernel", (width, 7919)), ("dense/bias", (7919,))]
    steps = [
        ("user", "embedding", 1e4, ("user/embedding",)),
        ("dense", "dense", 2.0 * 64 * width * 7919, ("dense/kernel", "dense/bias")),
    ]
    variables = _variables(shapes, {"user/embedding": 61.0})
    return ModelSpec("prime", 64, "SGD(learning_rate=0.1)", 0, variables, _chain(steps))


def scalar_model() -> ModelSpec:
    """Scalars only, so no variable can be partitioned."""
    return ModelSpec("scalars", 4, "SGD(learning_rate=0.1)", 0, _variables([("a", ()), ("b", ()), ("c", ())]))


def mixed_precision_model() -> ModelSpec:
    """Alternating float16 and float32 variables, which must never share a bucket."""
    shapes = [(f"layer_{index}/kernel", (64, 128)) for index in range(6)]
    variables = tuple(
        Variable(name, shape, ("float16", "float32")[index % 2], len(shapes) - 1 - index)
        for index, (name, shape) in enumerate(shapes)
    )
    return ModelSpec("mixed-precision", 16, "SGD(learning_rate=0.1)", 0, variables)


def _stated(value: float) -> Figure:
    return Figure(value, "stated")


def _star(nodes: tuple[Node, ...], gbit_per_s: float) -> ClusterSpec:
    return ClusterSpec.star(nodes, _stated(gbit_per_s), _stated(100.0), _stated(40.0), _stated(20.0))


def local_cluster(workers: int = 4) -> ClusterSpec:
    """One machine with `workers` worker processes."""
    return _star((Node("node0", "127.0.0.1", 4.0, workers=workers),), 1.0)


def star_cluster(nodes: int = 4, gbit_per_s: float = 0.2, workers: int = 1) -> ClusterSpec:
    """`nodes` equal machines around one switch, `workers` worker processes each."""
    return _star(
        tuple(Node(f"node{index}", f"10.0.0.{index + 1}", 2.0, workers=workers) for index in range(nodes)), gbit_per_s
    )


def uneven_cluster() -> ClusterSpec:
    """Four nodes, only `node1` and `node2` alike: `node0` has more cores and workers, `node3` a slow link."""
    nodes = (
        Node("node0", "10.0.0.1", 8.0, workers=2),
        Node("node1", "10.0.0.2", 2.0),
        Node("node2", "10.0.0.3", 2.0),
        Node("node3", "10.0.0.4", 2.0),
    )
    links = [Link(node.name, node.name, _stated(40.0), _stated(20.0)) for node in nodes]
    for node in nodes:
        rate = _stated(0.1 if node.name == "node3" else 1.0)
        links += [Link(node.name, "switch", rate, _stated(50.0)), Link("switch", node.name, rate, _stated(50.0))]
    return ClusterSpec(nodes, tuple(links), ("switch",))


def rack_cluster() -> ClusterSpec:
    """Two racks of two nodes; nodes of one rack are alike, and a thin link joins the racks."""
    nodes = tuple(Node(f"node{index}", f"10.0.{index // 2}.{index}", 4.0) for index in range(4))
    links = [Link(node.name, node.name, _stated(40.0), _stated(20.0)) for node in nodes]
    for index, node in enumerate(nodes):
        rack = f"rack{index // 2}"
        links += [
            Link(node.name, rack, _stated(10.0), _stated(10.0)),
            Link(rack, node.name, _stated(10.0), _stated(10.0)),
        ]
    for source, target in (("rack0", "rack1"), ("rack1", "rack0")):
        links.append(Link(source, target, _stated(5.0), _stated(30.0)))
    return ClusterSpec(nodes, tuple(links), ("rack0", "rack1"))


def racks(*sizes: int, uplink_gbit_per_s: float = 0.3) -> ClusterSpec:
    """Racks of the given numbers of nodes at 1 Gbit/s, each joined to a core switch by a thin uplink."""
    rack_of = [f"rack{rack}" for rack, size in enumerate(sizes) for _ in range(size)]
    nodes = tuple(Node(f"node{index}", "", 2.0) for index in range(len(rack_of)))
    rates = {(node.name, node.name): 8.0 for node in nodes}
    for node, rack in zip(nodes, rack_of, strict=True):
        rates |= {(node.name, rack): 1.0, (rack, node.name): 1.0}
    names = tuple(dict.fromkeys(rack_of))
    for rack in names:
        rates |= {(rack, "core"): uplink_gbit_per_s, ("core", rack): uplink_gbit_per_s}
    links = tuple(Link(*ends, _stated(rate), _stated(1.0)) for ends, rate in rates.items())
    return ClusterSpec(nodes, links, (*names, "core"))


def up_slower(nodes: int = 4) -> ClusterSpec:
    """Nodes around a switch that receive faster than they send, most of all the last node."""
    star = star_cluster(nodes)
    links = [
        replace(link, gbit_per_s=_stated(0.1 / (1 + (link.source == f"node{nodes - 1}"))))
        if link.target == "switch"
        else link
        for link in star.links
    ]
    return replace(star, links=tuple(links))


def gpu_cluster(nodes: int = 2, gpus: int = 4) -> ClusterSpec:
    """`nodes` machines with `gpus` GPUs each: replicas run on the GPUs, servers on the CPUs."""
    return _star(tuple(Node(f"node{index}", f"10.0.0.{index + 1}", 16.0, gpus=gpus) for index in range(nodes)), 25.0)


def changing(cluster: ClusterSpec, *changes: tuple[float, float]) -> ClusterSpec:
    """Return `cluster` whose links, except loopbacks, have `factor` times their rates after each number of
    `seconds`.
    """

    def later(link: Link) -> tuple[LaterRate, ...] | None:
        if link.source == link.target:
            return None
        rate = link.gbit_per_s
        return tuple(LaterRate(seconds, replace(rate, value=factor * rate.value)) for seconds, factor in changes)

    return replace(cluster, links=tuple(replace(link, later=later(link)) for link in cluster.links))

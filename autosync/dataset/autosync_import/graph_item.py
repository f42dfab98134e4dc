"""A `graph_item` file: which variables a model has, and which of their gradients are sparse."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.dataset.autosync_import.messages import parsed, read_bytes
from autosync.errors import DatasetError
from autosync.spec import ModelSpec, Variable, quoted

VARIABLE_OPS = ("VarHandleOp", "VariableV2", "Variable")

DTYPES = {1: "float32", 2: "float64", 14: "bfloat16", 19: "float16"}
"""The types that have gradients, by TensorFlow's numbers."""

UNKNOWN = "unknown"


@dataclass(frozen=True)
class GraphFacts:
    """What the file says of every variable with a gradient, in graph order: name without ':0', shape, dtype, sparse."""

    variables: tuple[tuple[str, tuple[int, ...], str, bool], ...]

    def model(self, name: str, sparse_rows: int | None) -> ModelSpec:
        """The model, each sparse gradient touching `sparse_rows` rows a step, or all of a smaller table's.

        Raises `DatasetError` when that is needed and None.
        """
        if sparse_rows is None and any(sparse for *_, sparse in self.variables):
            first = next(variable for variable, _, _, sparse in self.variables if sparse)
            raise DatasetError(
                f"Model {quoted(name)} has sparse gradients ({quoted(first)}, say), and the dataset does not tell how "
                "many rows they touch a step; give --sparse-rows (a replica's examples a step times rows looked "
                "up by each)."
            )
        last = len(self.variables) - 1
        return ModelSpec(
            name=name,
            batch_size=0,
            optimizer=UNKNOWN,
            slots=0,
            variables=tuple(
                Variable(
                    variable,
                    shape,
                    dtype,
                    ready_order=last - index,
                    sparse=sparse,
                    rows_per_step=float(min(sparse_rows or 0, shape[0])) if sparse else None,
                )
                for index, (variable, shape, dtype, sparse) in enumerate(self.variables)
            ),
        )


def read_graph_item(file: Path) -> GraphFacts:
    """What `file` says. Raises `DatasetError` for no graph item, an unknown shape, or a type that is not trained."""
    item = parsed(read_bytes(file), "GraphItem", file)
    nodes = {node.name: node for node in parsed(item.graph_def.value, "GraphDef", file).node}
    sparse = {_plain(target): ";" in gradient for gradient, target in item.grad_target_pairs.items()}
    if not sparse:
        raise DatasetError(f"{file} names no gradient, so there is nothing to synchronize; is it a graph_item file?")
    listed = [_plain(parsed(each.value, "VariableDef", file).variable_name) for each in item.info.variables]
    order = [name for name in dict.fromkeys([*listed, *nodes]) if name in sparse]
    missing = next((name for name in sparse if name not in nodes), None)
    if missing is not None:
        raise DatasetError(f"{file} has a gradient for {quoted(missing)}, which its graph does not hold.")
    return GraphFacts(tuple((name, *_shape_and_dtype(nodes[name], file), sparse[name]) for name in order))


def _plain(tensor: str) -> str:
    """The name of the operation that `tensor` comes from: `dense/kernel` for `dense/kernel:0`."""
    return tensor.partition(":")[0]


def _shape_and_dtype(node: Any, file: Path) -> tuple[tuple[int, ...], str]:
    if node.op not in VARIABLE_OPS:
        raise DatasetError(f"{file} has a gradient for {quoted(node.name)}, which is a {node.op} and no variable.")
    shape, dtype = node.attr["shape"].shape, DTYPES.get(node.attr["dtype"].type)
    sizes = tuple(dim.size for dim in shape.dim)
    if shape.unknown_rank or any(size < 1 for size in sizes) or dtype is None:
        raise DatasetError(
            f"{file}: variable {quoted(node.name)} has shape {quoted(sizes)} and type number "
            f"{node.attr['dtype'].type}; a variable's shape must be known, and its type one of "
            f"{', '.join(DTYPES.values())}."
        )
    return sizes, dtype

"""A `graph_item` file: the variables of a model, and which of their gradients are sparse."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.dataset.autosync_import.messages import parse_message, read_bytes
from autosync.errors import DatasetError
from autosync.spec import ModelSpec, Variable, quote

VARIABLE_OPS = ("VarHandleOp", "VariableV2", "Variable")

DTYPES = {1: "float32", 2: "float64", 14: "bfloat16", 19: "float16"}
"""The types that have gradients, by TensorFlow's numbers."""

UNKNOWN = "unknown"


@dataclass(frozen=True)
class GraphFacts:
    """The facts about every variable with a gradient, in graph order."""

    variables: tuple[tuple[str, tuple[int, ...], str, bool], ...]
    """Name without ':0', shape, dtype, and whether the gradient is sparse."""

    def model(self, name: str, sparse_rows: int | None) -> ModelSpec:
        """Return the model. Each sparse gradient touches `sparse_rows` rows per step, or all rows of a smaller table.

        Raises `DatasetError` if `sparse_rows` is needed and None.
        """
        if sparse_rows is None and any(sparse for *_, sparse in self.variables):
            first = next(variable for variable, _, _, sparse in self.variables if sparse)
            raise DatasetError(
                f"Model {quote(name)} has sparse gradients (for example {quote(first)}), and the dataset does not "
                "state how many rows they touch per step; pass --sparse-rows (a replica's examples per step times the "
                "rows that each example looks up)."
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
    """Read `file`. Raises `DatasetError` if it is not a graph item, a shape is unknown, or a type has no gradients."""
    item = parse_message(read_bytes(file), "GraphItem", file)
    nodes = {node.name: node for node in parse_message(item.graph_def.value, "GraphDef", file).node}
    sparse = {_plain(target): ";" in gradient for gradient, target in item.grad_target_pairs.items()}
    if not sparse:
        raise DatasetError(f"{file} must name gradients to synchronize, but names none; is it a graph_item file?")
    listed = [_plain(parse_message(entry.value, "VariableDef", file).variable_name) for entry in item.info.variables]
    order = [name for name in dict.fromkeys([*listed, *nodes]) if name in sparse]
    missing = next((name for name in sparse if name not in nodes), None)
    if missing is not None:
        raise DatasetError(f"{file} has a gradient for {quote(missing)}, which its graph does not contain.")
    return GraphFacts(tuple((name, *_shape_and_dtype(nodes[name], file), sparse[name]) for name in order))


def _plain(tensor: str) -> str:
    """Return the name of the operation that `tensor` comes from: `dense/kernel` for `dense/kernel:0`."""
    return tensor.partition(":")[0]


def _shape_and_dtype(node: Any, file: Path) -> tuple[tuple[int, ...], str]:
    if node.op not in VARIABLE_OPS:
        raise DatasetError(f"{file} has a gradient for {quote(node.name)}, which is a {node.op} instead of a variable.")
    shape, dtype = node.attr["shape"].shape, DTYPES.get(node.attr["dtype"].type)
    sizes = tuple(dim.size for dim in shape.dim)
    if shape.unknown_rank or any(size < 1 for size in sizes) or dtype is None:
        raise DatasetError(
            f"{file}: variable {quote(node.name)} has shape {quote(sizes)} and type number "
            f"{node.attr['dtype'].type}; a variable's shape must be known, and its type one of "
            f"{', '.join(DTYPES.values())}."
        )
    return sizes, dtype

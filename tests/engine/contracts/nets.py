"""Small models for all engines: each is written once, over a few operations that an engine's framework carries out.

All models are smooth, so that rounding differences stay rounding differences.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from autosync.numeric import AnyArray

BATCH = 5
"""Examples of one replica in a step."""

OUTPUTS = 3
WIDTHS = (1, 2, 3, 5, 7, 11, 16)


class Operations(Protocol):
    """The operations of a framework that models use."""

    def matmul(self, first: Any, second: Any) -> Any: ...
    def tanh(self, values: Any) -> Any: ...
    def mean(self, values: Any, axis: int | tuple[int, ...], keepdims: bool = False) -> Any: ...
    def reshape(self, values: Any, shape: tuple[int, ...]) -> Any: ...
    def transpose(self, values: Any) -> Any: ...
    def conv(self, images: Any, kernel: Any) -> Any: ...
    def like(self, array: AnyArray, values: Any) -> Any:
        """`array` with the type of `values`."""
        ...

    def rows(self, table: Any, numbers: Any, is_sparse: bool) -> Any:
        """Rows of a table. The gradient of a table that is only looked up is sparse."""
        ...


Forward = Callable[[Operations, Mapping[str, Any], Any], Any]
"""The outputs (examples, `OUTPUTS`) at the values of all variables, by name, for a batch of inputs."""


@dataclass(frozen=True)
class Net:
    """A model with the example batch of a replica; the loss is the mean of weighted squared errors."""

    shapes: Mapping[str, tuple[int, ...]]
    """The shape of each variable by name, in the order in which the model has them."""
    forward: Forward
    inputs: tuple[int, ...]
    """The shape of one example."""
    rows: int | None = None
    """The rows of the tables whose numbers the inputs are; None for inputs that are features."""

    @property
    def is_sparse(self) -> bool:
        return self.rows is not None and self.forward is not _tied

    def values(self, dtype: str) -> dict[str, AnyArray]:
        """The initial values by name; a scalar starts at 1."""
        draw = np.random.default_rng(3)
        scale = {name: 1 / np.sqrt(max(np.prod(shape[:-1]), 4)) for name, shape in self.shapes.items()}
        return {
            name: np.asarray(draw.normal(size=shape) * scale[name] if shape else 1.0).astype(dtype)
            for name, shape in self.shapes.items()
        }

    def batch(self, dtype: str, number: int = 0) -> tuple[AnyArray, AnyArray]:
        """Batch `number` of inputs and targets: the example batch, rolled by that many examples."""
        draw = np.random.default_rng(5)
        uniform = draw.uniform(size=(BATCH, *self.inputs))
        # Most row numbers are small, so that batches and replicas have rows in common.
        inputs = (uniform**2 * self.rows).astype("int32") if self.rows else (2 * uniform - 1).astype(dtype)
        targets = draw.normal(size=(BATCH, OUTPUTS)).astype(dtype)
        return np.roll(inputs, number, 0), np.roll(targets, number, 0)

    def whole_batch(self, dtype: str, step: int, replicas: int) -> tuple[AnyArray, AnyArray]:
        """The batches of all replicas in a step, joined."""
        parts = [self.batch(dtype, step * replicas + replica) for replica in range(replicas)]
        inputs, targets = zip(*parts, strict=True)
        return np.concatenate(inputs), np.concatenate(targets)


def loss(ops: Operations, outputs: Any, targets: Any) -> Any:
    """The mean squared error. An example's weight depends on its place in the batch; otherwise all replicas, whose
    batches hold the same examples in other orders, would have the same gradient.
    """
    weights = ops.reshape(ops.like(np.arange(BATCH) / 2, targets), (1, BATCH, 1))
    errors = ops.reshape((outputs - targets) ** 2, (-1, BATCH, OUTPUTS))
    return ops.mean(weights * errors, (0, 1, 2))


def _dense(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
    hidden = ops.tanh(ops.matmul(inputs, values["first"]) + values["bias"])
    return ops.matmul(ops.tanh(ops.matmul(hidden, values["second"])) * values["scale"], values["last"])


def _shifted(ops: Operations, numbers: Any, rows: int) -> Any:
    """Row numbers that depend on an example's place in the batch, because otherwise all replicas would read the same
    rows.
    """
    places = ops.reshape(ops.like(3 * np.arange(BATCH), numbers), (1, BATCH, 1))
    return ops.reshape((ops.reshape(numbers, (-1, BATCH, numbers.shape[1])) + places) % rows, (-1, numbers.shape[1]))


def _table(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
    return _common_rows(ops, values, _shifted(ops, inputs, 47))


def _common_rows(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
    hidden = ops.tanh(ops.reshape(ops.rows(values["table"], inputs, True), (-1, 20)))
    return ops.matmul(hidden, values["last"]) + values["bias"]


def _tied(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
    looked_up = ops.mean(ops.rows(values["table"], inputs, False), 1)
    logits = ops.matmul(ops.tanh(ops.matmul(looked_up, values["hidden"])), ops.transpose(values["table"]))
    return ops.matmul(logits, values["last"])


def _convolution(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
    hidden = ops.tanh(ops.conv(inputs, values["kernel"]) + values["bias"])
    return ops.matmul(ops.reshape(hidden, (-1, 45)), values["last"])


NETS: dict[str, Net] = {
    "dense": Net({"first": (7, 13), "bias": (13,), "second": (13, 11), "scale": (), "last": (11, 3)}, _dense, (7,)),
    "table": Net({"table": (47, 5), "last": (20, 3), "bias": (3,)}, _table, (4,), rows=47),
    "common rows": Net({"table": (47, 5), "last": (20, 3), "bias": (3,)}, _common_rows, (4,), rows=47),
    "tied": Net({"table": (13, 5), "hidden": (5, 5), "last": (13, 3)}, _tied, (3,), rows=13),
    "convolution": Net({"kernel": (3, 3, 2, 5), "bias": (5,), "last": (45, 3)}, _convolution, (5, 5, 2)),
}


def drawn(seed: int) -> Net:
    """A model drawn at random: tables or features, then layers of odd sizes, which may be used twice."""
    rng = random.Random(seed)
    columns, looks_up = rng.choice((1, 3, 4)), rng.random() < 0.5
    rows, shapes = rng.choice((5, 13, 47)) if looks_up else None, dict[str, tuple[int, ...]]()
    width, layers = columns, list[tuple[str, str]]()
    if rows:
        width = rng.choice(WIDTHS)
        shapes["table"] = rows, width
    for number in range(rng.randint(1, 4)):
        name, kind = f"layer{number}", rng.choice(("plain", "twice", "normalized"))
        next_width = width if kind == "twice" else rng.choice(WIDTHS[kind == "normalized" :])
        shapes[name] = width, next_width
        if rng.random() < 0.7:
            shapes[f"{name}_bias"] = (next_width,)
        layers.append((name, kind))
        width = next_width
    shapes["last"] = width, OUTPUTS

    def forward(ops: Operations, values: Mapping[str, Any], inputs: Any) -> Any:
        hidden = ops.mean(ops.rows(values["table"], _shifted(ops, inputs, rows), True), 1) if rows else inputs
        for name, kind in layers:
            for _ in range(2 if kind == "twice" else 1):
                hidden = ops.tanh(ops.matmul(hidden, values[name]) + values.get(f"{name}_bias", 0.0))
            if kind == "normalized":
                centred = hidden - ops.mean(hidden, 1, True)
                hidden = centred / (ops.mean(centred**2, 1, True) + 0.1) ** 0.5
        return ops.matmul(hidden, values["last"])

    return Net(shapes, forward, (columns,), rows)


def net_called(name: str) -> Net:
    """The model called `name`; `drawn N` is drawn with seed N."""
    return drawn(int(name.split()[1])) if name.startswith("drawn ") else NETS[name]

"""A captured model: its spec, its functions as bytes and its initial values, in one file without pickle."""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.capture.graph_function import GraphFunction
from autosync.engine.tensorflow.capture.optimizer import NO_RULE, CapturedOptimizer, GradientRule
from autosync.errors import ModelError
from autosync.numeric import AnyArray
from autosync.spec import ModelSpec


@dataclass(frozen=True)
class CapturedModel:
    """Everything that is needed to train a model without its Python code."""

    spec: ModelSpec
    gradient: GraphFunction
    """`gradient(*variables, *state, *metrics, *batch, *positions) -> (loss, *gradients, *new state, *new metrics)`.

    A dense variable is passed whole and has one gradient of its shape. A sparse variable is passed as its looked-up
    rows, and `positions` (one tensor for every lookup) are indices into these rows. It has two gradient outputs: a
    value for every looked-up row, and the original row numbers. `state` is the untrained variables (batch-norm
    statistics, dropout seeds), which every replica keeps for itself, like its `metrics` (see `TaskMetrics`). If the
    `gradient_rule` scales the loss, the last state is the scale, and gradients are scaled.
    """
    batch: GraphFunction
    """`batch(seed int32 (2,)) -> batch tensors` makes one replica's synthetic batch."""
    lookups: GraphFunction
    """`lookups(*batch) -> ids`, one tensor of row numbers for every lookup in a sparse variable."""
    lookup_of: tuple[int, ...]
    """`lookup_of[i]` is the index in `spec.variables` of the variable that lookup i reads."""
    optimizers: dict[str, CapturedOptimizer]
    """One captured update for every dtype among the variables."""
    initial_values: tuple[AnyArray, ...]
    """The initial values of the variables, in the order of `spec.variables`."""
    initial_state: tuple[AnyArray, ...]
    """The initial values of the state."""
    state_names: tuple[str, ...]
    """The paths of the state's variables."""
    seeds: tuple[bool, ...]
    """`seeds[i]` is true if state i is a random seed, which must differ between replicas."""
    notes: tuple[str, ...] = ()
    """Sentences for the user on differences from plain training."""
    gradient_rule: GradientRule = NO_RULE
    """The optimizer's rule over all gradients together."""
    factors: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """`factors[number]` names two more tensors of the gradient's graph, A and B, for a dense matrix whose gradient is
    the product A^T B. `gradient_with` returns them instead of the gradient."""
    initial_metrics: tuple[AnyArray, ...] = ()
    """The initial values of the metrics' states."""
    rules: tuple[int, ...] = ()
    """The number of the update rule of each variable: 0 is `update`, others are among `CapturedOptimizer.rules`. Empty
    if all variables have rule 0."""

    def gradient_with(self, factored: Collection[int]) -> GraphFunction:
        """Return `gradient` with two outputs, A and B, instead of the gradient of each variable in `factored`."""
        loss, *rest = self.gradient.outputs
        outputs = [loss]
        for number, variable in enumerate(self.spec.variables):
            of_variable = [rest.pop(0) for _ in range(2 if variable.sparse else 1)]
            outputs += self.factors[number] if number in factored else of_variable
        return replace(self.gradient, outputs=(*outputs, *rest))

    @property
    def any_batch_size(self) -> bool:
        """Whether `gradient` takes batches of any number of examples."""
        begin = len(self.initial_values) + len(self.initial_state) + len(self.initial_metrics)
        names = {name.partition(":")[0] for name in self.gradient.inputs[begin : begin + len(self.batch.outputs)]}
        graph = tf.compat.v1.GraphDef.FromString(self.gradient.graph)
        shapes = [node.attr["shape"].shape for node in graph.node if node.name in names]
        return all(shape.unknown_rank or shape.dim[0].size == -1 for shape in shapes)

    def to_bytes(self) -> bytes:
        """Serialize the model as one zip archive of JSON, GraphDefs and NumPy arrays."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            functions = {"gradient": self.gradient, "batch": self.batch, "lookups": self.lookups}
            functions |= {f"update_{dtype}": optimizer.update for dtype, optimizer in self.optimizers.items()}
            functions |= {
                _rule_name(dtype, number): rule
                for dtype, optimizer in self.optimizers.items()
                for number, rule in enumerate(optimizer.rules, 1)
            }
            document = {
                "spec": self.spec.to_json(),
                "lookup_of": self.lookup_of,
                "optimizers": {dtype: _optimizer_json(optimizer) for dtype, optimizer in self.optimizers.items()},
                "functions": {name: {"inputs": f.inputs, "outputs": f.outputs} for name, f in functions.items()},
                "state_names": self.state_names,
                "seeds": self.seeds,
                "notes": self.notes,
                "gradient_rule": asdict(self.gradient_rule),
                "metrics": len(self.initial_metrics),
                "factors": sorted([number, *names] for number, names in self.factors.items()),
            }
            if self.rules:
                document["rules"] = self.rules
            _write(archive, "model.json", json.dumps(document).encode())
            for name, function in functions.items():
                _write(archive, f"{name}.pb", function.graph)
            for kind, arrays in self._arrays().items():
                for index, array in enumerate(arrays):
                    with archive.open(f"{kind}/{index}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, array, allow_pickle=False)
        return buffer.getvalue()

    def _arrays(self) -> dict[str, tuple[AnyArray, ...]]:
        return {"value": self.initial_values, "state": self.initial_state, "metric": self.initial_metrics}

    @classmethod
    def from_bytes(cls, data: bytes) -> CapturedModel:
        """Load the model that `to_bytes` wrote. Raises `ModelError` for other `data`."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return cls._read(archive)
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ModelError(f"A captured model must be an archive written by autosync, but: {error}.") from None

    @classmethod
    def _read(cls, archive: zipfile.ZipFile) -> CapturedModel:
        document = json.loads(archive.read("model.json"))
        functions = {
            name: GraphFunction(archive.read(f"{name}.pb"), tuple(ends["inputs"]), tuple(ends["outputs"]))
            for name, ends in document["functions"].items()
        }

        def arrays(kind: str, count: int) -> tuple[AnyArray, ...]:
            files = (io.BytesIO(archive.read(f"{kind}/{index}.npy")) for index in range(count))
            return tuple(np.lib.format.read_array(file, allow_pickle=False) for file in files)

        spec = ModelSpec.from_json(document["spec"])
        return cls(
            spec=spec,
            gradient=functions["gradient"],
            batch=functions["batch"],
            lookups=functions["lookups"],
            lookup_of=tuple(document["lookup_of"]),
            optimizers={
                dtype: _optimizer_from_json(fields, dtype, functions)
                for dtype, fields in document["optimizers"].items()
            },
            initial_values=arrays("value", len(spec.variables)),
            initial_state=arrays("state", len(document["state_names"])),
            state_names=tuple(document["state_names"]),
            seeds=tuple(document["seeds"]),
            notes=tuple(document["notes"]),
            gradient_rule=GradientRule(**document["gradient_rule"]),
            factors={number: (left, right) for number, left, right in document["factors"]},
            rules=tuple(document.get("rules", ())),
            initial_metrics=arrays("metric", document["metrics"]),
        )


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write `data` without the time, which `writestr` adds to a plain name, so that equal models have equal bytes."""
    archive.writestr(zipfile.ZipInfo(name), data)


def _optimizer_json(optimizer: CapturedOptimizer) -> dict[str, Any]:
    return {name: value for name, value in optimizer.__dict__.items() if name not in ("update", "rules")}


def _rule_name(dtype: str, number: int) -> str:
    return f"update_{dtype}_{number}"


def _optimizer_from_json(
    document: dict[str, Any], dtype: str, functions: Mapping[str, GraphFunction]
) -> CapturedOptimizer:
    fields: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
    }
    names = itertools.takewhile(functions.__contains__, (_rule_name(dtype, number) for number in itertools.count(1)))
    rules = tuple(functions[name] for name in names)
    return CapturedOptimizer(update=functions[f"update_{dtype}"], rules=rules, **fields)

"""The model noun: which variables have gradients to synchronize, and the operators that make them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from autosync.errors import SpecError
from autosync.spec.codec import digest, every, first_repeated, known_fields, optional, required
from autosync.spec.quoting import quoted

__all__ = ["DTYPE_BYTES", "ModelProfile", "ModelSpec", "Operator", "Variable"]


@dataclass(frozen=True)
class ModelProfile:
    """A profiled step of one model: core-seconds that one replica's forward and backward pass take on a CPU.

    `ready` is for every variable the fraction of the backward pass after which its gradient is there, from 0 to 1.
    """

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float] = field(hash=False)

    def __post_init__(self) -> None:
        if not all(math.isfinite(each) and each > 0 for each in (self.forward_seconds, self.backward_seconds)):
            raise SpecError(
                "A profile's passes take positive seconds, not "
                f"{quoted(self.forward_seconds)} and {quoted(self.backward_seconds)}."
            )
        for name, fraction in self.ready.items():
            if not 0 <= fraction <= 1:
                raise SpecError(f"Variable {quoted(name)} is ready at a fraction from 0 to 1, not {quoted(fraction)}.")
        object.__setattr__(self, "ready", dict(self.ready))

    def to_json(self) -> dict[str, Any]:
        return {
            "forward_seconds": self.forward_seconds,
            "backward_seconds": self.backward_seconds,
            "ready": dict(self.ready),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ModelProfile:
        what = "A profile"
        known_fields(document, ("forward_seconds", "backward_seconds", "ready"), what)
        ready = required(document, "ready", dict, what)
        return cls(
            required(document, "forward_seconds", float, what),
            required(document, "backward_seconds", float, what),
            {name: required(ready, name, float, "A profile's ready") for name in ready},
        )


MOST_ELEMENTS = 2**50
"""The most elements of a variable: a thousand times what any machine holds, and yet exact as a float."""

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Variable:
    """One trainable variable.

    `ready_order` counts gradients in the order the backward pass finishes them (0 is first).
    A sparse variable's gradient touches `rows_per_step` distinct rows a replica and step (mean over sampled batches).
    `factor_rows` K tells that the gradient of a matrix (M, N) is A^T B, with A of (K, M) and B of (K, N) on a replica.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    ready_order: int
    sparse: bool = False
    rows_per_step: float | None = None
    factor_rows: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise SpecError(
                f"Variable {quoted(self.name)} has dtype {quoted(self.dtype)}. Trainable: {', '.join(DTYPE_BYTES)}."
            )
        if any(size < 1 for size in self.shape):
            raise SpecError(
                f"Variable {quoted(self.name)} has shape {quoted(self.shape)}; every dimension must be at least 1."
            )
        if self.elements > MOST_ELEMENTS:
            raise SpecError(f"Variable {quoted(self.name)} has shape {quoted(self.shape)}, more than 2^50 elements.")
        if self.rows_per_step is not None and not 0 <= self.rows_per_step <= MOST_ELEMENTS:
            raise SpecError(f"Variable {quoted(self.name)} cannot touch {quoted(self.rows_per_step)} rows a step.")
        if self.sparse != (self.rows_per_step is not None):
            raise SpecError(f"Variable {quoted(self.name)}: exactly the sparse variables state rows_per_step.")
        if self.sparse and not self.shape:
            raise SpecError(f"Variable {quoted(self.name)} is a scalar and cannot have a sparse gradient.")
        if self.factor_rows is not None and (len(self.shape) != 2 or self.sparse or self.factor_rows < 1):
            raise SpecError(f"Variable {quoted(self.name)}: only dense matrices have factors, of at least 1 row.")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def row_elements(self) -> int:
        """Elements in one row, i.e. one index of axis 0 (1 for a scalar)."""
        return math.prod(self.shape[1:])

    @property
    def bytes(self) -> int:
        """Bytes of the variable, and of its gradient when that is dense."""
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step; a sparse one counts the rows it touches."""
        if self.rows_per_step is None:
            return self.bytes
        return min(self.bytes, self.rows_per_step * self.row_elements * DTYPE_BYTES[self.dtype])

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "ready_order": self.ready_order,
        }
        if self.rows_per_step is not None:
            document |= {"sparse": True, "rows_per_step": float(self.rows_per_step)}
        if self.factor_rows is not None:
            document["factor_rows"] = self.factor_rows
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Variable:
        what = "A variable"
        known = ("name", "shape", "dtype", "ready_order", "sparse", "rows_per_step", "factor_rows")
        known_fields(document, known, what)
        return cls(
            name=required(document, "name", str, what),
            shape=every(document, "shape", int, what),
            dtype=required(document, "dtype", str, what),
            ready_order=required(document, "ready_order", int, what),
            sparse=optional(document, "sparse", bool, what) or False,
            rows_per_step=optional(document, "rows_per_step", float, what),
            factor_rows=optional(document, "factor_rows", int, what),
        )


@dataclass(frozen=True)
class Operator:
    """One node of the coarse operator graph: forward flops of one replica's step, and what it reads.

    `inputs` name earlier operators, `variables` the trainable variables read here.
    The backward pass costs about twice `flops`.
    """

    name: str
    kind: str
    flops: float
    inputs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.flops < math.inf:
            raise SpecError(f"Operator {quoted(self.name)} takes 0 or more flops, not {quoted(self.flops)}.")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "flops": float(self.flops),
            "inputs": list(self.inputs),
            "variables": list(self.variables),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Operator:
        what = "An operator"
        known_fields(document, ("name", "kind", "flops", "inputs", "variables"), what)
        return cls(
            name=required(document, "name", str, what),
            kind=required(document, "kind", str, what),
            flops=required(document, "flops", float, what),
            inputs=every(document, "inputs", str, what),
            variables=every(document, "variables", str, what),
        )


@dataclass(frozen=True)
class ModelSpec:
    """A model as synchronization sees it: variables in graph order and a coarse operator graph.

    `batch_size` is what one replica takes a step; `optimizer` is its name with its settings, as text;
    `slots` counts the arrays of a variable's size that the optimizer keeps beside it (Adam: 2).
    `profile` is what a step was measured to take; the digest leaves it out, so that measuring twice gives one model.
    """

    name: str
    batch_size: int
    optimizer: str
    slots: int
    variables: tuple[Variable, ...]
    operators: tuple[Operator, ...] = ()
    profile: ModelProfile | None = None

    def __post_init__(self) -> None:
        if not self.variables:
            raise SpecError(f"Model {quoted(self.name)} has no trainable variable, so there is nothing to synchronize.")
        names = [variable.name for variable in self.variables]
        if (twice := first_repeated(names)) is not None:
            raise SpecError(f"Model {quoted(self.name)} has two variables named {quoted(twice)}; names must be unique.")
        if sorted(variable.ready_order for variable in self.variables) != list(range(len(names))):
            raise SpecError(f"Model {quoted(self.name)}: ready_order must count its {len(names)} variables from 0.")
        if self.profile is not None and (missing := [name for name in names if name not in self.profile.ready]):
            raise SpecError(
                f"The profile of model {quoted(self.name)} does not say when {quoted(missing[0])} is ready."
            )

    @cached_property
    def digest(self) -> str:
        return digest(replace(self, profile=None).to_json())

    @cached_property
    def by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.variables}

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of one replica's step."""
        return sum(variable.gradient_bytes for variable in self.variables)

    @property
    def flops(self) -> float:
        """Forward flops of one replica's step."""
        return sum(operator.flops for operator in self.operators)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "batch_size": self.batch_size,
            "optimizer": self.optimizer,
            "slots": self.slots,
            "variables": [variable.to_json() for variable in self.variables],
            "operators": [operator.to_json() for operator in self.operators],
        }
        if self.profile is not None:
            document["profile"] = self.profile.to_json()
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ModelSpec:
        what = "A model"
        known = ("name", "batch_size", "optimizer", "slots", "variables", "operators", "profile")
        known_fields(document, known, what)
        profile = optional(document, "profile", dict, what)
        return cls(
            name=required(document, "name", str, what),
            batch_size=required(document, "batch_size", int, what),
            optimizer=required(document, "optimizer", str, what),
            slots=required(document, "slots", int, what),
            variables=tuple(Variable.from_json(each) for each in required(document, "variables", list, what)),
            operators=tuple(Operator.from_json(each) for each in required(document, "operators", list, what)),
            profile=None if profile is None else ModelProfile.from_json(profile),
        )

"""The model noun: which variables have gradients to synchronize, and the operators that make them."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from autosync.errors import SpecError
from autosync.spec.codec import Noun, digest, first_repeated
from autosync.spec.profile import DeviceProfile, ModelProfile
from autosync.spec.quoting import quoted

MOST_ELEMENTS = 2**50
"""The most elements of a variable: a thousand times what any machine holds, and yet exact as a float."""

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Variable(Noun, what="A variable"):
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


@dataclass(frozen=True)
class Operator(Noun, what="An operator"):
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


@dataclass(frozen=True)
class ModelSpec(Noun, what="A model"):
    """A model as synchronization sees it: variables in graph order and a coarse operator graph.

    `batch_size` is what one replica takes a step; `optimizer` is its name with its settings, as text;
    `slots` counts the arrays of a variable's size that the optimizer keeps beside it (Adam: 2).
    `profile` is what a step was measured to take; the digest leaves it out, so that measuring twice gives one model.
    `device_profile` is what paced passes follow in its place, and predicted ones on GPUs; as it decides how long they
    take, the digest has it.
    """

    name: str
    batch_size: int
    optimizer: str
    slots: int
    variables: tuple[Variable, ...]
    operators: tuple[Operator, ...] = ()
    profile: ModelProfile | None = None
    device_profile: DeviceProfile | None = None

    def __post_init__(self) -> None:
        if not self.variables:
            raise SpecError(f"Model {quoted(self.name)} has no trainable variable, so there is nothing to synchronize.")
        names = [variable.name for variable in self.variables]
        if (twice := first_repeated(names)) is not None:
            raise SpecError(f"Model {quoted(self.name)} has two variables named {quoted(twice)}; names must be unique.")
        if sorted(variable.ready_order for variable in self.variables) != list(range(len(names))):
            raise SpecError(f"Model {quoted(self.name)}: ready_order must count its {len(names)} variables from 0.")
        if self.profile is not None and (unlike := set(names) ^ self.profile.ready.keys()):
            first = next(name for name in (*names, *self.profile.ready) if name in unlike)
            says, which = ("says", ", which is no variable") if first in self.profile.ready else ("does not say", "")
            raise SpecError(f"The profile of model {quoted(self.name)} {says} when {quoted(first)} is ready{which}.")
        if self.device_profile is not None:
            self.device_profile.check_fits(self.name, self.batch_size, names)

    @cached_property
    def digest(self) -> str:
        return digest(replace(self, profile=None).to_json())

    @property
    def pace_profile(self) -> ModelProfile | None:
        """What paced passes follow: the profile of another device, if one was given, or the model's own."""
        return self.profile if self.device_profile is None else self.device_profile.as_fractions

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

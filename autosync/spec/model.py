"""The model noun: the trainable variables, and the operators that compute their gradients."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from autosync.errors import SpecError
from autosync.spec.codec import Noun, digest, first_repeated
from autosync.spec.profile import DeviceProfile, ModelProfile
from autosync.spec.quoting import quote

MOST_ELEMENTS = 2**50
"""The most elements of a variable: a thousand times the memory of any machine, yet exact as a float."""

DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Variable(Noun, what="A variable"):
    """A trainable variable."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    ready_order: int
    """Position of the gradient in the order in which the backward pass finishes gradients (0 is first)."""
    sparse: bool = False
    """Whether the gradient has only the rows that a batch looks up."""
    rows_per_step: float | None = None
    """Distinct rows that a sparse gradient touches, per replica and step (mean over sampled batches); None if dense."""
    factor_rows: int | None = None
    """K, if a replica's gradient of a matrix (M, N) is A^T B with A of (K, M) and B of (K, N); else None."""
    rows_of_two: float | None = None
    """Distinct rows that two replicas touch together in a step (mean over pairs of sampled batches); None if unknown.
    The model's digest has it only if the variable is `copied`, because it then decides a step's time; so earlier
    records of other variables remain records of the same model."""
    copied: bool = False
    """Whether every replica keeps a copy of a sparse variable, so that a server sends each replica the rows that any
    replica has touched. Otherwise replicas fetch the rows that they look up. The model's digest has it only by way of
    `rows_of_two`."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise SpecError(
                f"Variable {quote(self.name)} has dtype {quote(self.dtype)}. Trainable: {', '.join(DTYPE_BYTES)}."
            )
        if any(size < 1 for size in self.shape):
            raise SpecError(
                f"Variable {quote(self.name)} has shape {quote(self.shape)}; every dimension must be at least 1."
            )
        if self.elements > MOST_ELEMENTS:
            raise SpecError(f"Variable {quote(self.name)} has shape {quote(self.shape)}, more than 2^50 elements.")
        if self.rows_per_step is not None and not 0 <= self.rows_per_step <= MOST_ELEMENTS:
            raise SpecError(f"Variable {quote(self.name)} cannot touch {quote(self.rows_per_step)} rows a step.")
        if self.sparse != (self.rows_per_step is not None):
            raise SpecError(f"Variable {quote(self.name)}: sparse variables, and only these, state rows_per_step.")
        if self.copied and not self.sparse:
            raise SpecError(f"Variable {quote(self.name)} is dense, and only sparse variables can be `copied`.")
        if self.rows_of_two is not None:
            one = self.rows_per_step or 0.0
            if not self.sparse or not one * (1 - 1e-9) <= self.rows_of_two <= 2 * one * (1 + 1e-9):
                raise SpecError(
                    f"Variable {quote(self.name)}: two replicas touch from rows_per_step to twice as many rows, not "
                    f"{quote(self.rows_of_two)}; state rows_of_two only for sparse variables."
                )
        if self.sparse and not self.shape:
            raise SpecError(f"Variable {quote(self.name)} is a scalar and cannot have a sparse gradient.")
        if self.factor_rows is not None and (len(self.shape) != 2 or self.sparse or self.factor_rows < 1):
            raise SpecError(f"Variable {quote(self.name)}: only dense matrices have factors, of at least 1 row.")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def row_elements(self) -> int:
        """Elements in one row, i.e. one index of axis 0 (1 for a scalar)."""
        return math.prod(self.shape[1:])

    @property
    def bytes(self) -> int:
        """Bytes of the variable, and of a dense gradient."""
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step; a sparse gradient counts the touched rows only."""
        if self.rows_per_step is None:
            return self.bytes
        return min(self.bytes, self.rows_per_step * self.row_elements * DTYPE_BYTES[self.dtype])

    def rows_of(self, replicas: int) -> float:
        """The least mean number of distinct rows that `replicas` touch together in a step; 0 if dense.

        See `autosync.cost.bound` for the derivation. Without `rows_of_two`, all replicas may touch the same rows.
        """
        rows = self.rows_per_step or 0.0
        if self.rows_of_two is None or not rows:
            return rows
        share = min(1.0, 2 - self.rows_of_two / rows)
        return rows * replicas if share <= 0 else rows * (1 - (1 - share) ** replicas) / share


@dataclass(frozen=True)
class Operator(Noun, what="An operator"):
    """A node of the coarse operator graph."""

    name: str
    kind: str
    flops: float
    """Flops of one replica's forward pass; the backward pass costs about twice as many."""
    inputs: tuple[str, ...] = ()
    """Names of the earlier operators that this operator reads."""
    variables: tuple[str, ...] = ()
    """Names of the trainable variables that this operator reads."""

    def __post_init__(self) -> None:
        if not 0 <= self.flops < math.inf:
            raise SpecError(f"Operator {quote(self.name)} takes 0 or more flops, not {quote(self.flops)}.")


@dataclass(frozen=True)
class ModelSpec(Noun, what="A model"):
    """A model as synchronization sees it: variables and a coarse operator graph."""

    name: str
    batch_size: int
    """Examples that one replica computes in a step."""
    optimizer: str
    """Name and settings of the optimizer, as text."""
    slots: int
    """Number of arrays of a variable's size that the optimizer keeps for the variable (Adam: 2)."""
    variables: tuple[Variable, ...]
    """Trainable variables in graph order."""
    operators: tuple[Operator, ...] = ()
    profile: ModelProfile | None = None
    """Measured durations of a step. The digest leaves the profile out, so that measuring twice gives the same model."""
    device_profile: DeviceProfile | None = None
    """Profile of another device. If stated, paced passes and predicted passes on GPUs follow this profile instead of
    `profile`. The digest includes the device profile, because it decides how long these passes take."""

    def __post_init__(self) -> None:
        if not self.variables:
            raise SpecError(f"Model {quote(self.name)} has no trainable variable, so there is nothing to synchronize.")
        names = [variable.name for variable in self.variables]
        if (twice := first_repeated(names)) is not None:
            raise SpecError(f"Model {quote(self.name)} has two variables named {quote(twice)}; names must be unique.")
        if sorted(variable.ready_order for variable in self.variables) != list(range(len(names))):
            raise SpecError(f"Model {quote(self.name)}: ready_order must count its {len(names)} variables from 0.")
        if self.profile is not None:
            self._check_profile(self.profile, names)
        if self.device_profile is not None:
            self.device_profile.check_fits(self.name, self.batch_size, names)

    def _check_profile(self, profile: ModelProfile, names: list[str]) -> None:
        """Raise `SpecError` unless the profile has the times of exactly these variables."""
        for word, times in (("ready", profile.ready), ("read", profile.read)):
            if times is not None and (unlike := set(names) ^ times.keys()):
                first = next(name for name in (*names, *times) if name in unlike)
                says, which = ("says", ", which is no variable") if first in times else ("does not say", "")
                raise SpecError(f"The profile of model {quote(self.name)} {says} when {quote(first)} is {word}{which}.")
        for use in profile.uses or ():
            if use.variable not in names:
                raise SpecError(
                    f"The profile of model {quote(self.name)} has a use of {quote(use.variable)}, which is no variable."
                )

    @cached_property
    def digest(self) -> str:
        variables = tuple(
            replace(variable, rows_of_two=variable.rows_of_two if variable.copied else None, copied=False)
            for variable in self.variables
        )
        return digest(replace(self, profile=None, variables=variables).to_json())

    @property
    def pace_profile(self) -> ModelProfile | None:
        """The profile that paced passes follow: the other device's profile if stated, else the model's profile."""
        return self.profile if self.device_profile is None else self.device_profile.as_fractions

    @cached_property
    def weight_tied_tables(self) -> tuple[str, ...]:
        """The variables whose profile has lookups of rows and also reads of the whole, in order; empty without one."""
        uses = (self.profile.uses if self.profile is not None else None) or ()
        looked_up = {use.variable for use in uses if use.rows is not None}
        whole = {use.variable for use in uses if use.rows is None}
        return tuple(
            variable.name
            for variable in self.variables
            if variable.name in looked_up & whole and len(variable.shape) > 1 and not variable.sparse
        )

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

"""Compressors: how a shard's gradient is encoded before it is sent. That is apart from who synchronizes it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from autosync.errors import SpecError
from autosync.spec.codec import known_fields, optional, required
from autosync.spec.quoting import quoted

CAST_DTYPES = ("bf16", "fp16")
INDICES = ("own", "star", "var")


@dataclass(frozen=True)
class Cast:
    """Gradients travel in 16 bits and are added in their own precision; every time one is sent it is rounded anew.

    `fp16` sends each message scaled by a power of two, so that none of its values leaves the range of float16.
    """

    dtype: str
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dtype not in CAST_DTYPES:
            raise SpecError(f"Gradients are cast to {' or '.join(CAST_DTYPES)}, not {quoted(self.dtype)}.")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.dtype}


@dataclass(frozen=True)
class TopK:
    """The largest `ratio` of a shard's (or bucket's) elements travel; the rest is added to the next step's gradient.

    `indices` says who chooses them. "own": each replica for itself; values and int32 indices are all-gathered, or
    pushed to the server. "star": each replica in turn, "var": the replica whose chosen values have the largest
    square sum; then the others take its indices and the values are all-reduced (AR-Topk, Tyagi and Swany 2023).
    """

    ratio: float
    indices: str = "own"
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and 0 < self.ratio < 1):
            raise SpecError(f"Top-k keeps a ratio of the elements between 0 and 1, not {quoted(self.ratio)}.")
        if self.indices not in INDICES:
            raise SpecError(f"Top-k's indices are one of {', '.join(INDICES)}, not {quoted(self.indices)}.")

    def kept(self, elements: int) -> int:
        """How many of `elements` travel: the ratio rounded up."""
        return self.count(self.ratio, elements)

    @staticmethod
    def count(ratio: float, elements: int) -> int:
        """How many of `elements` a ratio is, rounded up."""
        return max(1, math.ceil(ratio * elements - 1e-9))

    def to_json(self) -> dict[str, Any]:
        return {"name": "top_k", "ratio": self.ratio, "indices": self.indices}


@dataclass(frozen=True)
class PowerSGD:
    """Gradients of matrices travel as two thin factors of `rank` columns (Vogels, Karimireddy and Jaggi 2019).

    The factors start from the last step's (warm start), what they miss is added to the next step's gradient (error
    feedback). A gradient of more than two axes is flattened to a matrix behind its last axis; vectors, scalars and
    matrices too small to gain travel as they are.
    """

    rank: int
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise SpecError(f"PowerSGD needs a rank of at least 1, not {self.rank}.")

    def matrix(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Rows and columns of the matrix that a gradient of `shape` is factored as; None when it travels whole."""
        if len(shape) < 2:
            return None
        rows, columns = math.prod(shape[:-1]), shape[-1]
        return (rows, columns) if self.rank * (rows + columns) < rows * columns else None

    def to_json(self) -> dict[str, Any]:
        return {"name": "power_sgd", "rank": self.rank}


@dataclass(frozen=True)
class SufficientFactors:
    """A matrix's gradient travels as the two factors it is the product of: sufficient-factor broadcasting, exact.

    It is only for variables that state `factor_rows` K: their M x N gradient is A^T B with A of K x M, B of K x N, and
    K (M + N) numbers travel in place of M N (Xie et al. 2014; Poseidon, Zhang et al. 2017).
    """

    lossy: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        return {"name": "sufficient_factors"}


Compressor: TypeAlias = Cast | TopK | PowerSGD | SufficientFactors


def compressor_from_json(document: Mapping[str, Any]) -> Compressor:
    """The compressor that `to_json` described. Raises `SpecError`."""
    what = "A compressor"
    name = required(document, "name", str, what)
    if name in CAST_DTYPES:
        known_fields(document, ("name",), what)
        return Cast(name)
    if name == "top_k":
        known_fields(document, ("name", "ratio", "indices"), what)
        return TopK(required(document, "ratio", float, what), optional(document, "indices", str, what) or "own")
    if name == "power_sgd":
        known_fields(document, ("name", "rank"), what)
        return PowerSGD(required(document, "rank", int, what))
    if name == "sufficient_factors":
        known_fields(document, ("name",), what)
        return SufficientFactors()
    known = ", ".join([*CAST_DTYPES, "top_k", "power_sgd", "sufficient_factors"])
    raise SpecError(f"Unknown compressor {quoted(name)}. Known: {known}.")

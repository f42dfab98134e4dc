"""Compressors: encodings of a shard's gradient for sending. A compressor is independent of the synchronizer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from autosync.errors import SpecError
from autosync.spec.codec import check_fields, read_optional, read_required
from autosync.spec.quoting import quote

CAST_DTYPES = ("bf16", "fp16")
INDICES = ("own", "star", "var")


@dataclass(frozen=True)
class Cast:
    """Replicas send gradients in 16 bits and add them in the gradients' precision; every send rounds again.

    `fp16` scales each message by a power of two, so that all its values stay in the range of float16.
    """

    dtype: str
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dtype not in CAST_DTYPES:
            raise SpecError(f"Gradients are cast to {' or '.join(CAST_DTYPES)}, not {quote(self.dtype)}.")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.dtype}


@dataclass(frozen=True)
class TopK:
    """A replica sends the largest `ratio` of a shard's (or bucket's) elements, and adds the rest to its next gradient.

    `indices` says which replica chooses the elements. "own": each replica for itself; values and int32 indices are
    all-gathered, or pushed to the server. "star": the replicas take turns. "var": the replica whose chosen values have
    the largest square sum. With "star" and "var", all replicas use the chooser's indices, and the values are
    all-reduced (AR-Topk, Tyagi and Swany 2023).
    """

    ratio: float
    indices: str = "own"
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and 0 < self.ratio < 1):
            raise SpecError(f"Top-k keeps a ratio of the elements between 0 and 1, not {quote(self.ratio)}.")
        if self.indices not in INDICES:
            raise SpecError(f"Top-k's indices are one of {', '.join(INDICES)}, not {quote(self.indices)}.")

    def kept(self, elements: int) -> int:
        """How many of `elements` are sent: the ratio rounded up."""
        return self.count(self.ratio, elements)

    @staticmethod
    def count(ratio: float, elements: int) -> int:
        """`ratio` times `elements`, rounded up."""
        return max(1, math.ceil(ratio * elements - 1e-9))

    def to_json(self) -> dict[str, Any]:
        return {"name": "top_k", "ratio": self.ratio, "indices": self.indices}


@dataclass(frozen=True)
class PowerSGD:
    """Gradients of matrices are sent as two thin factors of `rank` columns (Vogels, Karimireddy and Jaggi 2019).

    The factors start from the previous step's factors (warm start). The approximation error is added to the next
    gradient (error feedback). A gradient of more than two axes is flattened to a matrix that keeps the last axis as
    its columns. Vectors, scalars and matrices too small to gain are sent uncompressed.
    """

    rank: int
    lossy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise SpecError(f"PowerSGD needs a rank of at least 1, not {self.rank}.")

    def matrix(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Rows and columns of the matrix that a gradient of `shape` is factored as; None if it is sent uncompressed."""
        if len(shape) < 2:
            return None
        rows, columns = math.prod(shape[:-1]), shape[-1]
        return (rows, columns) if self.rank * (rows + columns) < rows * columns else None

    def to_json(self) -> dict[str, Any]:
        return {"name": "power_sgd", "rank": self.rank}


@dataclass(frozen=True)
class SufficientFactors:
    """A matrix's gradient is sent as two factors whose product it is: sufficient-factor broadcasting, exact.

    Only variables that state `factor_rows` K can use it: their M x N gradient is A^T B with A of K x M, B of K x N.
    K (M + N) numbers are sent instead of M N (Xie et al. 2014; Poseidon, Zhang et al. 2017).
    """

    lossy: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        return {"name": "sufficient_factors"}


Compressor: TypeAlias = Cast | TopK | PowerSGD | SufficientFactors


def compressor_from_json(document: Mapping[str, Any]) -> Compressor:
    """The compressor that `to_json` described. Raises `SpecError`."""
    what = "A compressor"
    name = read_required(document, "name", str, what)
    if name in CAST_DTYPES:
        check_fields(document, ("name",), what)
        return Cast(name)
    if name == "top_k":
        check_fields(document, ("name", "ratio", "indices"), what)
        return TopK(
            read_required(document, "ratio", float, what), read_optional(document, "indices", str, what) or "own"
        )
    if name == "power_sgd":
        check_fields(document, ("name", "rank"), what)
        return PowerSGD(read_required(document, "rank", int, what))
    if name == "sufficient_factors":
        check_fields(document, ("name",), what)
        return SufficientFactors()
    known = ", ".join([*CAST_DTYPES, "top_k", "power_sgd", "sufficient_factors"])
    raise SpecError(f"Unknown compressor {quote(name)}. Known: {known}.")

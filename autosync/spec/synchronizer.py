"""Synchronizers: parameter servers and all-reduces, which add up a shard's gradients and hold its values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from autosync.errors import SpecError
from autosync.spec.algorithms import ALGORITHM_ROWS, ALGORITHMS
from autosync.spec.codec import check_fields, read_optional, read_required
from autosync.spec.compressor import Cast, Compressor, SufficientFactors, TopK, compressor_from_json
from autosync.spec.quoting import quote


@dataclass(frozen=True)
class ParameterServer:
    """The shard and its optimizer slots live on `device`; replicas pull values and push gradients.

    With `local_copy`, a value is sent to every other node once and copied there to that node's replicas.
    `staleness` is the number of steps that a fast replica may run ahead; 0 is synchronous. Shards spread over all
    replicas' devices equal ZeRO-1: each device keeps the optimizer state of its shards only.
    """

    device: str
    local_copy: bool = False
    staleness: int = 0
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        if self.staleness < 0:
            raise SpecError(f"A parameter server's staleness is at least 0, not {self.staleness}.")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"parameter_server": self.device}
        if self.local_copy:
            document["local_copy"] = True
        if self.staleness:
            document["staleness"] = self.staleness
        if self.compressor:
            document["compressor"] = self.compressor.to_json()
        return document


@dataclass(frozen=True)
class AllReduce:
    """Every replica holds the shard; `algorithm` reduces shards with the same `group` as one flat bucket."""

    group: int
    algorithm: str = "ring"
    compressor: Compressor | None = None

    def __post_init__(self) -> None:
        if self.group < 0:
            raise SpecError(f"An all-reduce group is numbered from 0, not {self.group}.")
        if self.algorithm not in ALGORITHMS:
            raise SpecError(f"Unknown all-reduce algorithm {quote(self.algorithm)}. Known: {', '.join(ALGORITHMS)}.")

    @property
    def gathers(self) -> bool:
        """Whether replicas all-gather their own parts instead of sums, so that `algorithm` has no effect."""
        compressor = self.compressor
        return isinstance(compressor, SufficientFactors) or (
            isinstance(compressor, TopK) and compressor.indices == "own"
        )

    @property
    def is_collective(self) -> bool:
        """Whether the algorithm is the framework's own collective, not laid out in moves."""
        return not ALGORITHM_ROWS[self.algorithm].placed

    @property
    def is_scaled(self) -> bool:
        """Whether every message has a scale, which a collective cannot carry."""
        return isinstance(self.compressor, Cast) and self.compressor.dtype == "fp16"

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"all_reduce": self.group, "algorithm": self.algorithm}
        if self.compressor:
            document["compressor"] = self.compressor.to_json()
        return document


Synchronizer: TypeAlias = ParameterServer | AllReduce


def synchronizer_from_json(document: Mapping[str, Any]) -> Synchronizer:
    """The parameter server or all-reduce that `to_json` described; the first field tells which. Raises `SpecError`."""
    what = "A synchronizer"
    of_server, of_reduce = ("parameter_server", "local_copy", "staleness"), ("all_reduce", "algorithm")
    check_fields(document, (*of_server, *of_reduce, "compressor"), what)
    if ("parameter_server" in document) == ("all_reduce" in document):
        raise SpecError(
            f"A synchronizer is either a parameter_server or an all_reduce, but got {quote(dict(document))}."
        )
    encoded = read_optional(document, "compressor", dict, what)
    compressor = compressor_from_json(encoded) if encoded is not None else None
    if "parameter_server" in document:
        check_fields(document, (*of_server, "compressor"), "A parameter server")
        return ParameterServer(
            device=read_required(document, "parameter_server", str, what),
            local_copy=read_optional(document, "local_copy", bool, what) or False,
            staleness=read_optional(document, "staleness", int, what) or 0,
            compressor=compressor,
        )
    check_fields(document, (*of_reduce, "compressor"), "An all-reduce")
    return AllReduce(
        group=read_required(document, "all_reduce", int, what),
        algorithm=read_optional(document, "algorithm", str, what) or "ring",
        compressor=compressor,
    )

"""The strategy noun: for every variable, how it is partitioned and how each shard is synchronized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from autosync.errors import SpecError
from autosync.spec.codec import digest
from autosync.spec.fields import known_fields, optional, required

__all__ = [
    "ALGORITHMS",
    "AllReduce",
    "ParameterServer",
    "Partition",
    "Strategy",
    "Synchronizer",
    "VariableStrategy",
    "shard_sizes",
]

ALGORITHMS = ("ring",)
FORMAT = "autosync.strategy/1"


def shard_sizes(dimension: int, shards: int) -> tuple[int, ...]:
    """Rows of each shard of an axis of `dimension` rows: the first `dimension mod shards` have one row more."""
    if not 1 <= shards <= dimension:
        raise SpecError(f"An axis of {dimension} rows can be cut into 1 to {dimension} shards, not {shards}.")
    rows, longer = divmod(dimension, shards)
    return tuple(rows + (index < longer) for index in range(shards))


@dataclass(frozen=True)
class Partition:
    """A variable cut along `axis` into `shards` pieces (sizes: `shard_sizes`)."""

    axis: int
    shards: int

    def __post_init__(self) -> None:
        if self.axis < 0 or self.shards < 2:
            raise SpecError(f"A partition has an axis of at least 0 and at least 2 shards, not {self}.")


@dataclass(frozen=True)
class ParameterServer:
    """The shard and its optimizer slots live on `device`; replicas pull values and push gradients.

    With `local_copy`, a value crosses to each other node once and is copied there to that node's replicas.
    `staleness` counts the steps a fast replica may run ahead; 0 is synchronous.
    """

    device: str
    local_copy: bool = False
    staleness: int = 0

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"parameter_server": self.device}
        if self.local_copy:
            document["local_copy"] = True
        if self.staleness:
            document["staleness"] = self.staleness
        return document


@dataclass(frozen=True)
class AllReduce:
    """Every replica holds the shard; shards with the same `group` are reduced as one flat bucket."""

    group: int
    algorithm: str = "ring"

    def __post_init__(self) -> None:
        if self.group < 0:
            raise SpecError(f"An all-reduce group is numbered from 0, not {self.group}.")
        if self.algorithm not in ALGORITHMS:
            raise SpecError(f"Unknown all-reduce algorithm {self.algorithm!r}. Known: {', '.join(ALGORITHMS)}.")

    def to_json(self) -> dict[str, Any]:
        return {"all_reduce": self.group, "algorithm": self.algorithm}


Synchronizer: TypeAlias = ParameterServer | AllReduce


def synchronizer_from_json(document: Mapping[str, Any]) -> Synchronizer:
    """A parameter server or an all-reduce, told apart by their first field. Raises `SpecError`."""
    what = "A synchronizer"
    known_fields(document, ("parameter_server", "local_copy", "staleness", "all_reduce", "algorithm"), what)
    if ("parameter_server" in document) == ("all_reduce" in document):
        raise SpecError(f"A synchronizer is either a parameter_server or an all_reduce, but got {dict(document)}.")
    if "parameter_server" in document:
        known_fields(document, ("parameter_server", "local_copy", "staleness"), "A parameter server")
        return ParameterServer(
            device=required(document, "parameter_server", str, what),
            local_copy=optional(document, "local_copy", bool, what) or False,
            staleness=optional(document, "staleness", int, what) or 0,
        )
    known_fields(document, ("all_reduce", "algorithm"), "An all-reduce")
    return AllReduce(
        group=required(document, "all_reduce", int, what),
        algorithm=optional(document, "algorithm", str, what) or "ring",
    )


@dataclass(frozen=True)
class VariableStrategy:
    """One variable's partition and the synchronizer of each of its shards (one when it is not partitioned)."""

    variable: str
    shards: tuple[Synchronizer, ...]
    partition: Partition | None = None

    def __post_init__(self) -> None:
        wanted = self.partition.shards if self.partition else 1
        if len(self.shards) != wanted:
            raise SpecError(
                f"Variable {self.variable!r} has {wanted} shard(s) but {len(self.shards)} synchronizer(s); "
                "give one each."
            )

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"variable": self.variable}
        if self.partition:
            document["partition"] = {"axis": self.partition.axis, "shards": self.partition.shards}
        document["shards"] = [shard.to_json() for shard in self.shards]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> VariableStrategy:
        what = "A variable's strategy"
        known_fields(document, ("variable", "partition", "shards"), what)
        cut = optional(document, "partition", dict, what)
        partition = None
        if cut is not None:
            known_fields(cut, ("axis", "shards"), "A partition")
            partition = Partition(
                required(cut, "axis", int, "A partition"), required(cut, "shards", int, "A partition")
            )
        return cls(
            variable=required(document, "variable", str, what),
            shards=tuple(synchronizer_from_json(each) for each in required(document, "shards", list, what)),
            partition=partition,
        )


@dataclass(frozen=True)
class Strategy:
    """How a set of replicas synchronizes every variable of a model. `variables` are in graph order.

    Two strategies that make the same decisions have one `digest`, whatever their group numbers and the order in which
    variables are listed. The order of `replicas` is a decision: rings follow it.
    """

    replicas: tuple[str, ...]
    variables: tuple[VariableStrategy, ...]

    def __post_init__(self) -> None:
        if not self.replicas or len(set(self.replicas)) != len(self.replicas):
            raise SpecError(f"A strategy needs one or more different replica devices, not {list(self.replicas)}.")
        names = [each.variable for each in self.variables]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SpecError(f"A strategy decides each variable once, but names {twice!r} twice.")

    @cached_property
    def digest(self) -> str:
        ordered = sorted(self.variables, key=lambda each: each.variable)
        canonical = replace(self, variables=tuple(ordered)).with_groups_renumbered()
        return digest({"replicas": list(self.replicas), "variables": [each.to_json() for each in canonical.variables]})

    @cached_property
    def by_name(self) -> dict[str, VariableStrategy]:
        return {each.variable: each for each in self.variables}

    def shards(self) -> Iterator[tuple[VariableStrategy, int, Synchronizer]]:
        """Every (variable's strategy, shard index, synchronizer), in order."""
        for each in self.variables:
            for index, synchronizer in enumerate(each.shards):
                yield each, index, synchronizer

    def with_groups_renumbered(self) -> Strategy:
        """The same strategy with all-reduce groups numbered 0, 1, ... in order of first use."""
        numbers: dict[int, int] = {}

        def renumbered(synchronizer: Synchronizer) -> Synchronizer:
            if isinstance(synchronizer, ParameterServer):
                return synchronizer
            return replace(synchronizer, group=numbers.setdefault(synchronizer.group, len(numbers)))

        return replace(
            self,
            variables=tuple(
                replace(each, shards=tuple(renumbered(shard) for shard in each.shards)) for each in self.variables
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "replicas": list(self.replicas),
            "variables": [each.to_json() for each in self.variables],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Strategy:
        what = "A strategy"
        known_fields(document, ("format", "replicas", "variables", "summary"), what)
        if document.get("format") != FORMAT:
            raise SpecError(f"A strategy file says format {FORMAT!r}, but this one says {document.get('format')!r}.")
        return cls(
            replicas=tuple(required(document, "replicas", list, what)),
            variables=tuple(VariableStrategy.from_json(each) for each in required(document, "variables", list, what)),
        )

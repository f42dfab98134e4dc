"""The strategy noun: for every variable, how it is partitioned and how each shard is synchronized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from autosync.errors import SpecError
from autosync.spec.codec import digest, every, first_repeated, known_fields, optional, required
from autosync.spec.discipline import PLAIN, Discipline
from autosync.spec.kept_hash import KeptHash
from autosync.spec.quoting import quoted
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer, synchronizer_from_json

FORMAT = "autosync.strategy/1"

MOST_SHARDS = 1024
"""The most shards of a variable: one for every device that a cluster can have."""


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
        if self.axis < 0 or not 2 <= self.shards <= MOST_SHARDS:
            raise SpecError(
                f"A partition has an axis of at least 0 and 2 to {MOST_SHARDS} shards, not {quoted(self.shards)} along "
                f"axis {quoted(self.axis)}."
            )


@dataclass(frozen=True)
class VariableStrategy(KeptHash):
    """One variable's partition and the synchronizer of each of its shards (one when it is not partitioned)."""

    variable: str
    shards: tuple[Synchronizer, ...]
    partition: Partition | None = None

    __hash__ = KeptHash.__hash__

    def __post_init__(self) -> None:
        wanted = self.partition.shards if self.partition else 1
        if len(self.shards) != wanted:
            raise SpecError(
                f"Variable {quoted(self.variable)} has {wanted} shard(s) but {len(self.shards)} synchronizer(s); "
                "give one each."
            )

    @cached_property
    def distinct(self) -> tuple[Synchronizer, ...]:
        """The different synchronizers of its shards, in order of first use."""
        if len(self.shards) == 1:
            return self.shards
        return tuple(dict.fromkeys({id(shard): shard for shard in self.shards}.values()))

    @cached_property
    def servers(self) -> tuple[ParameterServer, ...]:
        return tuple([each for each in self.distinct if isinstance(each, ParameterServer)])

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The device of each shard that is on a server, in order."""
        return tuple([shard.device for shard in self.shards if isinstance(shard, ParameterServer)])

    @cached_property
    def reductions(self) -> tuple[AllReduce, ...]:
        return tuple([each for each in self.distinct if isinstance(each, AllReduce)])

    def with_others(self, instead: Mapping[Synchronizer, Synchronizer]) -> VariableStrategy:
        """The same with others in place of those synchronizers that `instead` has."""
        distinct = tuple([instead.get(shard, shard) for shard in self.distinct])
        if distinct == self.distinct:
            return self
        if len(self.shards) == 1:
            return uncut(self.variable, *distinct)
        objects = {id(shard): shard for shard in self.shards}
        others = {address: instead.get(shard, shard) for address, shard in objects.items()}
        shards = tuple([others[id(shard)] for shard in self.shards])
        return VariableStrategy(self.variable, shards, self.partition)

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


@lru_cache(maxsize=1 << 16)
def uncut(variable: str, synchronizer: Synchronizer) -> VariableStrategy:
    """A variable that is not cut; one object each, since a search decides the same again and again."""
    return VariableStrategy(variable, (synchronizer,))


@dataclass(frozen=True)
class Strategy(KeptHash):
    """How a set of replicas synchronizes every variable of a model. `variables` are in graph order.

    Two strategies that make the same decisions have one `digest`, whatever their group numbers and the order in which
    variables are listed. The order of `replicas` is a decision: rings follow it.
    """

    replicas: tuple[str, ...]
    variables: tuple[VariableStrategy, ...]
    discipline: Discipline = PLAIN

    __hash__ = KeptHash.__hash__

    def __post_init__(self) -> None:
        if not self.replicas or len(set(self.replicas)) != len(self.replicas):
            raise SpecError(
                f"A strategy needs one or more different replica devices, not {quoted(list(self.replicas))}."
            )
        twice = first_repeated(each.variable for each in self.variables)
        if twice is not None:
            raise SpecError(f"A strategy decides each variable once, but names {quoted(twice)} twice.")

    @cached_property
    def digest(self) -> str:
        ordered = sorted(self.variables, key=lambda each: each.variable)
        canonical = replace(self, variables=tuple(ordered)).with_groups_renumbered()
        return digest({name: each for name, each in canonical.to_json().items() if name != "format"})

    @cached_property
    def by_name(self) -> dict[str, VariableStrategy]:
        return {each.variable: each for each in self.variables}

    def shards(self) -> Iterator[tuple[VariableStrategy, int, Synchronizer]]:
        """Every (variable's strategy, shard index, synchronizer), in order."""
        for each in self.variables:
            for index, synchronizer in enumerate(each.shards):
                yield each, index, synchronizer

    @cached_property
    def staleness(self) -> int:
        """How many steps a fast replica may run ahead of the slowest; 0 is synchronous."""
        return max((shard.staleness for each in self.variables for shard in each.servers), default=0)

    @cached_property
    def has_collectives(self) -> bool:
        """Whether anything is all-reduced by TensorFlow's own collectives."""
        return any(shard.is_collective for each in self.variables for shard in each.reductions)

    @cached_property
    def changes_statistics(self) -> bool:
        """Whether training under it follows other numbers than one process would, beyond rounding.

        Such a strategy is only as good as the loss it reaches: a shorter step says nothing by itself.
        """
        distinct = (shard for each in self.variables for shard in each.distinct)
        lossy = any(shard.compressor.lossy for shard in distinct if shard.compressor)
        return lossy or self.staleness > 0 or self.discipline.changes_statistics

    def with_groups_renumbered(self) -> Strategy:
        """The same strategy with all-reduce groups numbered 0, 1, ... in order of first use."""
        numbers: dict[int, int] = {}
        variables = []
        for each in self.variables:
            renumbered: dict[Synchronizer, Synchronizer] = {
                shard: replace(shard, group=numbers.setdefault(shard.group, len(numbers))) for shard in each.reductions
            }
            variables.append(each.with_others(renumbered))
        return replace(self, variables=tuple(variables))

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "format": FORMAT,
            "replicas": list(self.replicas),
            "variables": [each.to_json() for each in self.variables],
        }
        if self.discipline != PLAIN:
            document["discipline"] = self.discipline.to_json()
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Strategy:
        what = "A strategy"
        known_fields(document, ("format", "replicas", "variables", "discipline", "summary"), what)
        if document.get("format") != FORMAT:
            raise SpecError(
                f"A strategy file says format {FORMAT!r}, but this one says {quoted(document.get('format'))}."
            )
        return cls(
            replicas=every(document, "replicas", str, what),
            variables=tuple(VariableStrategy.from_json(each) for each in required(document, "variables", list, what)),
            discipline=Discipline.from_json(optional(document, "discipline", dict, what) or {}),
        )

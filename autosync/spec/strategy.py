"""The strategy noun: the partition of every variable and the synchronizer of every shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from autosync.errors import SpecError
from autosync.spec.cached_hash import CachedHash
from autosync.spec.codec import check_fields, digest, first_repeated, read_list, read_optional, read_required
from autosync.spec.ddp import DDPSettings
from autosync.spec.discipline import PLAIN, Discipline
from autosync.spec.quoting import quote
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer, synchronizer_from_json

FORMAT = "autosync.strategy/1"
FIELDS = ("format", "replicas", "variables", "discipline", "ddp", "overlap_next_forward", "summary")

MOST_SHARDS = 1024
"""The most shards of a variable: one for every device that a cluster can have."""


def shard_sizes(dimension: int, shards: int) -> tuple[int, ...]:
    """Rows of each shard of an axis of `dimension` rows; the first `dimension mod shards` shards have an extra row."""
    if not 1 <= shards <= dimension:
        raise SpecError(f"An axis of {dimension} rows can be cut into 1 to {dimension} shards, not {shards}.")
    rows, longer = divmod(dimension, shards)
    return tuple(rows + (index < longer) for index in range(shards))


@dataclass(frozen=True)
class Partition:
    """A cut of a variable along `axis` into `shards` shards (sizes: `shard_sizes`)."""

    axis: int
    shards: int

    def __post_init__(self) -> None:
        if self.axis < 0 or not 2 <= self.shards <= MOST_SHARDS:
            raise SpecError(
                f"A partition has an axis of at least 0 and 2 to {MOST_SHARDS} shards, not {quote(self.shards)} along "
                f"axis {quote(self.axis)}."
            )


@dataclass(frozen=True)
class VariableStrategy(CachedHash):
    """A variable's partition and the synchronizer of each shard (one synchronizer if `partition` is None)."""

    variable: str
    shards: tuple[Synchronizer, ...]
    partition: Partition | None = None
    rows_apart: bool = False
    """For a tied table, which is looked up and also read as a whole: whether all replicas gather the looked-up rows of
    the gradient by themselves. The shards' synchronizers then exchange the gradient of the other reads alone, which is
    ready earlier. The mean gradient is the sum of both, so the numbers of training stay the same."""

    __hash__ = CachedHash.__hash__

    def __post_init__(self) -> None:
        wanted = self.partition.shards if self.partition else 1
        if len(self.shards) != wanted:
            raise SpecError(
                f"Variable {quote(self.variable)} has {wanted} shard(s) but {len(self.shards)} synchronizer(s); "
                "give one each."
            )

    @cached_property
    def distinct(self) -> tuple[Synchronizer, ...]:
        """The distinct synchronizers of the shards, in order of first use."""
        if len(self.shards) == 1:
            return self.shards
        return tuple(dict.fromkeys({id(shard): shard for shard in self.shards}.values()))

    @cached_property
    def servers(self) -> tuple[ParameterServer, ...]:
        return tuple([shard for shard in self.distinct if isinstance(shard, ParameterServer)])

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The devices of the shards that are on servers, in order of shards."""
        return tuple([shard.device for shard in self.shards if isinstance(shard, ParameterServer)])

    @cached_property
    def reductions(self) -> tuple[AllReduce, ...]:
        return tuple([shard for shard in self.distinct if isinstance(shard, AllReduce)])

    def replace_synchronizers(self, replacements: Mapping[Synchronizer, Synchronizer]) -> VariableStrategy:
        """Return the same decision, with every synchronizer in `replacements` replaced by its value there."""
        distinct = tuple([replacements.get(shard, shard) for shard in self.distinct])
        if distinct == self.distinct:
            return self
        if len(self.shards) == 1 and not self.rows_apart:
            return uncut(self.variable, *distinct)
        objects = {id(shard): shard for shard in self.shards}
        replaced = {address: replacements.get(shard, shard) for address, shard in objects.items()}
        shards = tuple([replaced[id(shard)] for shard in self.shards])
        return replace(self, shards=shards)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"variable": self.variable}
        if self.partition:
            document["partition"] = {"axis": self.partition.axis, "shards": self.partition.shards}
        document["shards"] = [shard.to_json() for shard in self.shards]
        if self.rows_apart:
            document["rows_apart"] = True
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> VariableStrategy:
        what = "A variable's strategy"
        check_fields(document, ("variable", "partition", "shards", "rows_apart"), what)
        cut = read_optional(document, "partition", dict, what)
        partition = None
        if cut is not None:
            check_fields(cut, ("axis", "shards"), "A partition")
            partition = Partition(
                read_required(cut, "axis", int, "A partition"), read_required(cut, "shards", int, "A partition")
            )
        return cls(
            variable=read_required(document, "variable", str, what),
            shards=tuple(synchronizer_from_json(shard) for shard in read_required(document, "shards", list, what)),
            partition=partition,
            rows_apart=read_optional(document, "rows_apart", bool, what) or False,
        )


@lru_cache(maxsize=1 << 16)
def uncut(variable: str, synchronizer: Synchronizer) -> VariableStrategy:
    """The strategy of a variable that is not cut, cached because a search makes the same decision many times."""
    return VariableStrategy(variable, (synchronizer,))


@dataclass(frozen=True, repr=False)
class Strategy(CachedHash):
    """How a set of replicas synchronizes every variable of a model. `variables` are in graph order.

    Strategies that make the same decisions have the same `digest`; group numbers and the order of `variables` have no
    effect. The order of `replicas` is a decision, because rings follow it.
    """

    replicas: tuple[str, ...]
    variables: tuple[VariableStrategy, ...]
    discipline: Discipline = PLAIN
    ddp: DDPSettings | None = None
    """The settings of DistributedDataParallel, if DDP itself carries the strategy out; None for an engine of ours."""
    overlap_next_forward: bool = False
    """Whether a step ends without a barrier: gradients and new values also travel during the next forward pass, in
    which only the read of a variable waits for its values. The numbers of training stay the same. See ByteScheduler
    (Peng et al., SOSP 2019) and P3 (Jayarajan et al., MLSys 2019)."""

    __hash__ = CachedHash.__hash__

    def __post_init__(self) -> None:
        if not self.replicas or len(set(self.replicas)) != len(self.replicas):
            raise SpecError(
                f"A strategy needs one or more different replica devices, not {quote(list(self.replicas))}."
            )
        twice = first_repeated(decision.variable for decision in self.variables)
        if twice is not None:
            raise SpecError(f"A strategy decides each variable once, but names {quote(twice)} twice.")

    def __repr__(self) -> str:
        """One short line for notebooks and tracebacks; `to_json` has all decisions."""
        kinds = ("under DistributedDataParallel",) if self.ddp else ("without a barrier",) * self.overlap_next_forward
        sizes = (f"variables: {len(self.variables)}", f"replicas: {len(self.replicas)}")
        return f"<{', '.join((f'Strategy {self.digest[:8]}', *sizes, *kinds))}>"

    @cached_property
    def digest(self) -> str:
        ordered = sorted(self.variables, key=lambda decision: decision.variable)
        canonical = replace(self, variables=tuple(ordered)).with_groups_renumbered()
        return digest({name: value for name, value in canonical.to_json().items() if name != "format"})

    @cached_property
    def by_name(self) -> dict[str, VariableStrategy]:
        return {decision.variable: decision for decision in self.variables}

    def shards(self) -> Iterator[tuple[VariableStrategy, int, Synchronizer]]:
        """Every (variable's strategy, shard index, synchronizer), in order."""
        for decision in self.variables:
            for index, synchronizer in enumerate(decision.shards):
                yield decision, index, synchronizer

    @cached_property
    def rows_apart(self) -> tuple[str, ...]:
        """The tied tables whose looked-up rows are sent apart, in order."""
        return tuple(decision.variable for decision in self.variables if decision.rows_apart)

    @cached_property
    def staleness(self) -> int:
        """How many steps a fast replica may run ahead of the slowest; 0 is synchronous."""
        return max((shard.staleness for decision in self.variables for shard in decision.servers), default=0)

    @cached_property
    def has_collectives(self) -> bool:
        """Whether the framework's own collectives all-reduce any shard."""
        return self.ddp is not None or any(
            shard.is_collective for decision in self.variables for shard in decision.reductions
        )

    @cached_property
    def changes_statistics(self) -> bool:
        """Whether training follows other numbers than a single process would, beyond rounding.

        Such a strategy must be judged by the loss that training reaches; a shorter step alone does not make it better.
        """
        distinct = (shard for decision in self.variables for shard in decision.distinct)
        lossy = any(shard.compressor.lossy for shard in distinct if shard.compressor)
        return lossy or self.staleness > 0 or self.discipline.changes_statistics

    def with_groups_renumbered(self) -> Strategy:
        """The same strategy with all-reduce groups numbered 0, 1, ... in order of first use."""
        numbers: dict[int, int] = {}
        variables = []
        for decision in self.variables:
            renumbered: dict[Synchronizer, Synchronizer] = {
                shard: replace(shard, group=numbers.setdefault(shard.group, len(numbers)))
                for shard in decision.reductions
            }
            variables.append(decision.replace_synchronizers(renumbered))
        return replace(self, variables=tuple(variables))

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "format": FORMAT,
            "replicas": list(self.replicas),
            "variables": [decision.to_json() for decision in self.variables],
        }
        if self.discipline != PLAIN:
            document["discipline"] = self.discipline.to_json()
        if self.ddp is not None:
            document["ddp"] = self.ddp.to_json()
        if self.overlap_next_forward:
            document["overlap_next_forward"] = True
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Strategy:
        what = "A strategy"
        check_fields(document, FIELDS, what)
        if document.get("format") != FORMAT:
            raise SpecError(
                f"A strategy file says format {FORMAT!r}, but this one says {quote(document.get('format'))}."
            )
        ddp = read_optional(document, "ddp", dict, what)
        return cls(
            replicas=read_list(document, "replicas", str, what),
            variables=tuple(map(VariableStrategy.from_json, read_required(document, "variables", list, what))),
            discipline=Discipline.from_json(read_optional(document, "discipline", dict, what) or {}),
            ddp=None if ddp is None else DDPSettings.from_json(ddp),
            overlap_next_forward=read_optional(document, "overlap_next_forward", bool, what) or False,
        )

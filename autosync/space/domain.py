"""The domain of one variable: every decision that a bound space offers it."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias, final

from autosync.space.naming import compressor_text, cut_text, reduction_text, server_text
from autosync.spec import (
    AllReduce,
    Compressor,
    ParameterServer,
    Partition,
    SufficientFactors,
    Synchronizer,
    Variable,
    VariableStrategy,
)

SERVED = "served"
REDUCED = "reduced"

Draft: TypeAlias = list[VariableStrategy]
"""A strategy in the making: one entry a variable, in graph order."""


class BucketKind(NamedTuple):
    """What all shards of a bucket have in common: a flat tensor has one dtype, and rows are gathered, not added.

    Sufficient factors belong to one variable, so each such variable is a kind of its own, `alone` being its ready
    order; for all others `alone` is -1.
    """

    dtype: str
    sparse: bool
    algorithm: str = "ring"
    compressor: Compressor | None = None
    alone: int = -1


@lru_cache(maxsize=16384)
def all_reduce(group: int, algorithm: str = "ring", compressor: Compressor | None = None) -> AllReduce:
    """The all-reduce of `group`; one object each, since candidates hold very many."""
    return AllReduce(group, algorithm, compressor)


def kind_of(synchronizer: Synchronizer) -> str:
    return REDUCED if isinstance(synchronizer, AllReduce) else SERVED


def stands_for_whole(synchronizer: Synchronizer) -> bool:
    """Whether the synchronizer can hold only a whole variable, none that is cut."""
    return isinstance(synchronizer.compressor, SufficientFactors)


@final
@dataclass(frozen=True)
class Domain:
    """What one variable may be given.

    `cuts` (None is whole) are in order of shards, then axis; `servers` in the cluster's order, with each local copy and
    compressor; `reductions`, the all-reduces, differ in algorithm and compressor and all have group 0. No option is
    there twice. Each shard takes one of `servers` or `reductions`; see `Rule` for `mixed_shards`.
    """

    variable: Variable
    cuts: tuple[Partition | None, ...]
    servers: tuple[ParameterServer, ...]
    reductions: tuple[AllReduce, ...]
    mixed_shards: bool

    @property
    def reduced(self) -> bool:
        return bool(self.reductions)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return ((SERVED,) if self.servers else ()) + ((REDUCED,) if self.reductions else ())

    @cached_property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(server.device for server in self.servers))

    @cached_property
    def copies(self) -> tuple[bool, ...]:
        return tuple(dict.fromkeys(server.local_copy for server in self.servers))

    @cached_property
    def compressors(self) -> tuple[Compressor | None, ...]:
        """Every compressor that some shard may have."""
        shards: tuple[Synchronizer, ...] = (*self.servers, *self.reductions)
        return tuple(dict.fromkeys(each.compressor for each in shards))

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step; a sparse one counts its touched rows."""
        return float(self.variable.gradient_bytes)

    def bucket_kind(self, shard: AllReduce) -> BucketKind:
        key = shard.algorithm, shard.compressor
        if key not in self._bucket_kinds:
            alone = self.variable.ready_order if stands_for_whole(shard) else -1
            self._bucket_kinds[key] = BucketKind(self.variable.dtype, self.variable.sparse, *key, alone)
        return self._bucket_kinds[key]

    def algorithms(self, compressor: Compressor | None) -> tuple[str, ...]:
        """The algorithms offered with `compressor`, in the rule's order."""
        return self._algorithms.get(compressor, ())

    def on(
        self, device: str, local_copy: bool, compressor: Compressor | None = None, whole: bool = True
    ) -> ParameterServer:
        """The server on `device` (one of `devices`), with a local copy and compressor as asked where that is offered.

        `whole` tells that the variable is not cut.
        """
        choices = self._by_device[device]
        for wish in ((local_copy, compressor), (local_copy, None), (not local_copy, compressor)):
            found = choices.get(wish)
            if found and (whole or not stands_for_whole(found)):
                return found
        return next(each for each in choices.values() if whole or not stands_for_whole(each))

    def reducing(
        self, group: int, algorithm: str = "ring", compressor: Compressor | None = None, whole: bool = True
    ) -> AllReduce:
        """The all-reduce of `group`, with algorithm and compressor as asked where that is offered, else the first."""
        if not whole and compressor is not None and isinstance(compressor, SufficientFactors):
            compressor = None
        if compressor not in self._algorithms:
            compressor = next(each for each in self._algorithms if whole or not isinstance(each, SufficientFactors))
        offered = self._algorithms[compressor]
        return all_reduce(group, algorithm if algorithm in offered else offered[0], compressor)

    def servers_for(self, cut: Partition | None) -> tuple[ParameterServer, ...]:
        return tuple(each for each in self.servers if cut is None or not stands_for_whole(each))

    def reductions_for(self, cut: Partition | None) -> tuple[AllReduce, ...]:
        return tuple(each for each in self.reductions if cut is None or not stands_for_whole(each))

    def why_not(self, each: VariableStrategy) -> str | None:
        """The first reason why `each` is none of the decisions offered, apart from its groups and staleness."""
        name = each.variable
        if each.partition not in self.cuts:
            offered = ", ".join(cut_text(cut) for cut in self.cuts)
            return f"Variable {name!r} is {cut_text(each.partition)}; the space offers: {offered}."
        for shard in each.distinct:
            if shard.compressor not in self.compressors:
                offered = ", ".join(compressor_text(compressor) for compressor in self.compressors)
                return f"Variable {name!r} is sent {compressor_text(shard.compressor)}; the space offers: {offered}."
            if each.partition and stands_for_whole(shard):
                return f"Variable {name!r} is cut, but sufficient factors stand for a whole matrix."
            if isinstance(shard, AllReduce):
                if self.reductions and shard.algorithm not in self.algorithms(shard.compressor):
                    offered = ", ".join(map(reduction_text, self.reductions))
                    return f"Variable {name!r} is all-reduced by {reduction_text(shard)}; the space offers: {offered}."
            elif not self._offers(shard):
                return f"Variable {name!r} is on {server_text(shard)}; the space offers: {self._servers_text}."
        if each.reductions and not self.reductions:
            return f"Variable {name!r} is all-reduced; the space offers it parameter servers only."
        if each.reductions and each.servers and not self.mixed_shards:
            return f"Variable {name!r} mixes servers and all-reduce; the space gives its shards one kind."
        return None

    def _offers(self, server: ParameterServer) -> bool:
        return (server.local_copy, server.compressor) in self._by_device.get(server.device, ())

    @cached_property
    def _bucket_kinds(self) -> dict[tuple[str, Compressor | None], BucketKind]:
        """Kinds of buckets, filled in as they are asked for: strategies from outside have others than those offered."""
        return {}

    @cached_property
    def _algorithms(self) -> dict[Compressor | None, tuple[str, ...]]:
        table: dict[Compressor | None, tuple[str, ...]] = {}
        for each in self.reductions:
            table[each.compressor] = (*table.get(each.compressor, ()), each.algorithm)
        return table

    @cached_property
    def _by_device(self) -> dict[str, dict[tuple[bool, Compressor | None], ParameterServer]]:
        table: dict[str, dict[tuple[bool, Compressor | None], ParameterServer]] = {}
        for server in self.servers:
            table.setdefault(server.device, {})[server.local_copy, server.compressor] = server
        return table

    @property
    def _servers_text(self) -> str:
        return ", ".join(server_text(server) for server in self.servers) or "all-reduce only"

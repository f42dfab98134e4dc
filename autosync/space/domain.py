"""The domain of a variable: every decision that a bound space offers."""

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
"""An unfinished strategy: the decision on each variable, in graph order."""


class BucketKind(NamedTuple):
    """The properties that all shards of a bucket share."""

    dtype: str
    """A flat tensor has one dtype."""
    sparse: bool
    """Rows of sparse gradients are gathered, not added."""
    algorithm: str = "ring"
    compressor: Compressor | None = None
    alone: int = -1
    """Ready order of a variable that is sent as sufficient factors, because its bucket cannot hold other variables; -1
    for all other kinds."""


@lru_cache(maxsize=16384)
def all_reduce(group: int, algorithm: str = "ring", compressor: Compressor | None = None) -> AllReduce:
    """The all-reduce of `group`, cached because candidates hold very many of them."""
    return AllReduce(group, algorithm, compressor)


def kind_of(synchronizer: Synchronizer) -> str:
    return REDUCED if isinstance(synchronizer, AllReduce) else SERVED


def stands_for_whole(synchronizer: Synchronizer) -> bool:
    """Whether the synchronizer needs a variable that is not cut."""
    return isinstance(synchronizer.compressor, SufficientFactors)


@final
@dataclass(frozen=True)
class Domain:
    """The options of a variable, all different. Each shard takes one of `servers` or `reductions`."""

    variable: Variable
    cuts: tuple[Partition | None, ...]
    """Cuts in order of shards, then axis; None leaves the variable whole."""
    servers: tuple[ParameterServer, ...]
    """Servers in the cluster's order, in every combination with local copies and compressors."""
    reductions: tuple[AllReduce, ...]
    """All-reduces that differ in algorithm or compressor; all have group 0."""
    mixed_shards: bool
    """As in `Rule`."""

    @property
    def offers_all_reduce(self) -> bool:
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
        """Every compressor on offer."""
        shards: tuple[Synchronizer, ...] = (*self.servers, *self.reductions)
        return tuple(dict.fromkeys(shard.compressor for shard in shards))

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step; a sparse gradient counts the touched rows only."""
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
        """The server on `device` (one of `devices`), with the wanted local copy and compressor if these are offered.

        `whole`: the variable is not cut.
        """
        choices = self._by_device[device]
        for wish in ((local_copy, compressor), (local_copy, None), (not local_copy, compressor)):
            server = choices.get(wish)
            if server and (whole or not stands_for_whole(server)):
                return server
        return next(server for server in choices.values() if whole or not stands_for_whole(server))

    def reducing(
        self, group: int, algorithm: str = "ring", compressor: Compressor | None = None, whole: bool = True
    ) -> AllReduce:
        """The all-reduce of `group`, with the wanted algorithm and compressor if offered, else the first offered."""
        if not whole and compressor is not None and isinstance(compressor, SufficientFactors):
            compressor = None
        if compressor not in self._algorithms:
            compressor = next(
                option for option in self._algorithms if whole or not isinstance(option, SufficientFactors)
            )
        offered = self._algorithms[compressor]
        return all_reduce(group, algorithm if algorithm in offered else offered[0], compressor)

    def servers_for(self, cut: Partition | None) -> tuple[ParameterServer, ...]:
        return tuple(server for server in self.servers if cut is None or not stands_for_whole(server))

    def reductions_for(self, cut: Partition | None) -> tuple[AllReduce, ...]:
        return tuple(shard for shard in self.reductions if cut is None or not stands_for_whole(shard))

    def why_not(self, decision: VariableStrategy) -> str | None:
        """The first reason why `decision` is not offered, except groups and staleness; None if it is offered."""
        name = decision.variable
        if decision.partition not in self.cuts:
            offered = ", ".join(cut_text(cut) for cut in self.cuts)
            return f"Variable {name!r} is {cut_text(decision.partition)}; the space offers: {offered}."
        for shard in decision.distinct:
            if shard.compressor not in self.compressors:
                offered = ", ".join(compressor_text(compressor) for compressor in self.compressors)
                return f"Variable {name!r} is sent {compressor_text(shard.compressor)}; the space offers: {offered}."
            if decision.partition and stands_for_whole(shard):
                return f"Variable {name!r} is cut, but sufficient factors stand for a whole matrix."
            if isinstance(shard, AllReduce):
                if self.reductions and shard.algorithm not in self.algorithms(shard.compressor):
                    offered = ", ".join(map(reduction_text, self.reductions))
                    return f"Variable {name!r} is all-reduced by {reduction_text(shard)}; the space offers: {offered}."
            elif not self._offers(shard):
                return f"Variable {name!r} is on {server_text(shard)}; the space offers: {self._servers_text}."
        if decision.reductions and not self.reductions:
            return f"Variable {name!r} is all-reduced; the space offers it parameter servers only."
        if decision.reductions and decision.servers and not self.mixed_shards:
            return f"Variable {name!r} mixes servers and all-reduce; the space gives its shards one kind."
        return None

    def _offers(self, server: ParameterServer) -> bool:
        return (server.local_copy, server.compressor) in self._by_device.get(server.device, ())

    @cached_property
    def _bucket_kinds(self) -> dict[tuple[str, Compressor | None], BucketKind]:
        """A cache, filled on demand because strategies from outside can have kinds that are not offered."""
        return {}

    @cached_property
    def _algorithms(self) -> dict[Compressor | None, tuple[str, ...]]:
        table: dict[Compressor | None, tuple[str, ...]] = {}
        for shard in self.reductions:
            table[shard.compressor] = (*table.get(shard.compressor, ()), shard.algorithm)
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

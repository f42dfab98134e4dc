"""The domain of one variable, and of all of them: every decision that a bound space offers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias, final

from autosync.spec import DTYPE_BYTES, AllReduce, ParameterServer, Partition, Synchronizer, Variable, VariableStrategy

__all__ = ["REDUCED", "SERVED", "BucketKind", "Domain", "Domains", "Draft", "all_reduce", "kind_of"]

SERVED = "served"
REDUCED = "reduced"

Draft: TypeAlias = list[VariableStrategy]
"""A strategy in the making: one entry a variable, in graph order."""

BucketKind: TypeAlias = tuple[str, bool]
"""Dtype and whether sparse. A bucket holds one kind: a flat tensor has one dtype, and rows are gathered, not added."""


@lru_cache(maxsize=4096)
def all_reduce(group: int) -> AllReduce:
    """The all-reduce of `group`; one object a group, since candidates hold very many."""
    return AllReduce(group)


def kind_of(synchronizer: Synchronizer) -> str:
    return REDUCED if isinstance(synchronizer, AllReduce) else SERVED


@final
@dataclass(frozen=True)
class Domain:
    """What one variable may be given.

    `cuts` (None is whole) are in order of shards, then axis; `servers` in the cluster's order. Neither holds an option
    twice. Each shard takes one of `servers` or, if `reduced`, an all-reduce; see `Rule` for `mixed_shards`.
    """

    variable: Variable
    cuts: tuple[Partition | None, ...]
    servers: tuple[ParameterServer, ...]
    reduced: bool
    mixed_shards: bool

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return ((SERVED,) if self.servers else ()) + ((REDUCED,) if self.reduced else ())

    @cached_property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(server.device for server in self.servers))

    @cached_property
    def bucket_kind(self) -> BucketKind:
        return self.variable.dtype, self.variable.sparse

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of one replica's gradient in a step; a sparse one counts its touched rows."""
        variable = self.variable
        if variable.rows_per_step is None:
            return float(variable.bytes)
        return variable.rows_per_step * variable.row_elements * DTYPE_BYTES[variable.dtype]

    def on(self, device: str, local_copy: bool) -> ParameterServer:
        """The server on `device` (one of `devices`), with a local copy as asked where that is offered."""
        choices = self._by_device[device]
        return choices.get(local_copy) or next(iter(choices.values()))

    @cached_property
    def _by_device(self) -> dict[str, dict[bool, ParameterServer]]:
        table: dict[str, dict[bool, ParameterServer]] = {}
        for server in self.servers:
            table.setdefault(server.device, {})[server.local_copy] = server
        return table

    @cached_property
    def _server_set(self) -> frozenset[Synchronizer]:
        return frozenset(self.servers)

    def labelled_choices(self, buckets: int) -> int:
        """Number of decisions, were there `buckets` all-reduce buckets to tell apart."""
        served, reduced = len(self.servers), buckets if self.reduced else 0
        counts = [cut.shards if cut else 1 for cut in self.cuts]
        if self.mixed_shards:
            return sum((served + reduced) ** count for count in counts)
        return sum(served**count + reduced**count for count in counts)

    def why_not(self, each: VariableStrategy) -> str | None:
        """The first reason why `each` is none of the decisions offered, apart from its groups."""
        if each.partition not in self.cuts:
            offered = ", ".join(_cut_text(cut) for cut in self.cuts)
            return f"Variable {each.variable!r} is {_cut_text(each.partition)}; the space offers: {offered}."
        reduced = 0
        for shard in each.shards:
            if isinstance(shard, AllReduce):
                reduced += 1
            elif shard not in self._server_set:
                return (
                    f"Variable {each.variable!r} is on {_server_text(shard)}; the space offers: {self._servers_text}."
                )
        if reduced and not self.reduced:
            return f"Variable {each.variable!r} is all-reduced; the space offers it parameter servers only."
        if 0 < reduced < len(each.shards) and not self.mixed_shards:
            return f"Variable {each.variable!r} mixes servers and all-reduce; the space gives its shards one kind."
        return None

    @property
    def _servers_text(self) -> str:
        return ", ".join(_server_text(server) for server in self.servers) or "all-reduce only"


def _cut_text(cut: Partition | None) -> str:
    return f"cut in {cut.shards} along axis {cut.axis}" if cut else "whole"


def _server_text(server: ParameterServer) -> str:
    copy = " with a local copy" if server.local_copy else ""
    stale = f" with staleness {server.staleness}" if server.staleness else ""
    return f"{server.device}{copy}{stale}"


@final
@dataclass(frozen=True)
class Domains:
    """The domains of a model's variables, in graph order, and how many buckets each bucket kind may have."""

    each: tuple[Domain, ...]
    max_buckets: int

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {domain.variable.name: index for index, domain in enumerate(self.each)}

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Every device some variable may be put on, in the order first offered."""
        return tuple(dict.fromkeys(device for domain in self.each for device in domain.devices))

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Variables of equal shape, dtype and choices, by index: those one would decide together."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, domain in enumerate(self.each):
            variable = domain.variable
            look = (variable.shape, variable.dtype, variable.sparse, domain.cuts, domain.servers, domain.reduced)
            groups.setdefault(look, []).append(index)
        return tuple(tuple(members) for members in groups.values())

    @cached_property
    def by_bytes(self) -> tuple[int, ...]:
        """Variables by index, the one with most gradient bytes first."""
        return tuple(sorted(range(len(self.each)), key=lambda index: -self.each[index].gradient_bytes))

    @cached_property
    def choosable(self) -> tuple[int, ...]:
        """Variables, by index, that may be of either kind."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.kinds) > 1)

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """Variables, by index, with more than one cut to choose from."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.cuts) > 1)

    @cached_property
    def limited(self) -> bool:
        """Whether there can be more shards to all-reduce than buckets to put them in."""
        counts: dict[BucketKind, int] = {}
        for domain in self.each:
            if domain.reduced:
                most = max(cut.shards if cut else 1 for cut in domain.cuts)
                counts[domain.bucket_kind] = counts.get(domain.bucket_kind, 0) + most
        return any(count > self.max_buckets for count in counts.values())

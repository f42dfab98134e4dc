"""Enumerates the strategies of a small space."""

from collections.abc import Iterator
from typing import TypeAlias

from autosync.space.domain import BucketKind, Domain, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.space.staleness import can_be_stale, with_staleness
from autosync.spec import AllReduce, ParameterServer, Synchronizer, VariableStrategy

_Used: TypeAlias = dict[BucketKind, int]
"""Number of buckets in use, by kind."""


def all_drafts(domains: Domains) -> Iterator[Draft]:
    """Yield every strategy once, as a draft; there are `count_strategies` of them."""
    numbering = _Numbering(domains)
    for draft in _drafts_from(domains, numbering, 0, {}):
        yield draft
        if can_be_stale(draft):
            yield from (with_staleness(draft, steps) for steps in domains.staleness if steps)


class _Numbering:
    """Assigns group numbers to buckets. Kinds are interleaved, so that no two buckets share a number."""

    def __init__(self, domains: Domains) -> None:
        kinds = [domain.bucket_kind(shard) for domain in domains.each for shard in domain.reductions]
        self._turns = {kind: turn for turn, kind in enumerate(dict.fromkeys(kinds))}

    def bucket(self, kind: BucketKind, label: int) -> AllReduce:
        return all_reduce(label * len(self._turns) + self._turns[kind], kind.algorithm, kind.compressor)


def _drafts_from(domains: Domains, numbering: _Numbering, index: int, used: _Used) -> Iterator[Draft]:
    """Yield all decisions for the variables from `index` on."""
    if index == len(domains.each):
        yield []
        return
    for decision, then_used in _decisions(domains, numbering, domains.each[index], used):
        for rest in _drafts_from(domains, numbering, index + 1, then_used):
            yield [decision, *rest]


def _decisions(
    domains: Domains, numbering: _Numbering, domain: Domain, used: _Used
) -> Iterator[tuple[VariableStrategy, _Used]]:
    """Yield every decision for one variable, with the buckets in use afterwards."""
    for cut in domain.cuts:
        servers = domain.servers_for(cut)
        kinds = tuple(domain.bucket_kind(shard) for shard in domain.reductions_for(cut))
        for some_servers, some_kinds in [(servers, kinds)] if domain.mixed_shards else [(servers, ()), ((), kinds)]:
            options = _ShardOptions(some_servers, some_kinds, domains.max_buckets, numbering)
            for shards, then_used in options.fillings(cut.shards if cut else 1, used):
                yield VariableStrategy(domain.variable.name, shards, cut), then_used


class _ShardOptions:
    """The servers and bucket kinds that every shard of a variable can use."""

    def __init__(
        self,
        servers: tuple[ParameterServer, ...],
        kinds: tuple[BucketKind, ...],
        max_buckets: int,
        numbering: _Numbering,
    ) -> None:
        self._servers = servers
        self._kinds = kinds
        self._max_buckets = max_buckets
        self._numbering = numbering

    def fillings(self, count: int, used: _Used) -> Iterator[tuple[tuple[Synchronizer, ...], _Used]]:
        """Yield all ways to synchronize `count` shards. A new bucket always gets the next number, because otherwise the
        same strategy would appear several times."""
        if count == 0:
            yield (), used
            return
        for server in self._servers:
            for rest, then_used in self.fillings(count - 1, used):
                yield (server, *rest), then_used
        for kind in self._kinds:
            taken = used.get(kind, 0)
            most = 1 if kind.alone >= 0 else self._max_buckets
            for label in range(min(taken + 1, most)):
                opened = used | {kind: max(taken, label + 1)}
                for rest, then_used in self.fillings(count - 1, opened):
                    yield (self._numbering.bucket(kind, label), *rest), then_used

"""The enumeration of a small space: its strategies, one by one."""

from collections.abc import Iterator
from typing import TypeAlias

from autosync.space.domain import BucketKind, Domain, Draft, all_reduce
from autosync.space.domains import Domains
from autosync.space.staleness import can_be_stale, with_staleness
from autosync.spec import AllReduce, ParameterServer, Synchronizer, VariableStrategy

_Used: TypeAlias = dict[BucketKind, int]
"""How many buckets of each kind are taken already."""


def all_drafts(domains: Domains) -> Iterator[Draft]:
    """Every strategy once, as a draft; `count_strategies` of them."""
    numbering = _Numbering(domains)
    for draft in _drafts_from(domains, numbering, 0, {}):
        yield draft
        if can_be_stale(draft):
            yield from (with_staleness(draft, steps) for steps in domains.staleness if steps)


class _Numbering:
    """Groups for buckets: kinds take turns, so that no two share a number."""

    def __init__(self, domains: Domains) -> None:
        kinds = [domain.bucket_kind(shard) for domain in domains.each for shard in domain.reductions]
        self._turns = {kind: turn for turn, kind in enumerate(dict.fromkeys(kinds))}

    def bucket(self, kind: BucketKind, label: int) -> AllReduce:
        return all_reduce(label * len(self._turns) + self._turns[kind], kind.algorithm, kind.compressor)


def _drafts_from(domains: Domains, numbering: _Numbering, index: int, used: _Used) -> Iterator[Draft]:
    """Decisions for the variables from `index` on."""
    if index == len(domains.each):
        yield []
        return
    for each, then_used in _decisions(domains, numbering, domains.each[index], used):
        for rest in _drafts_from(domains, numbering, index + 1, then_used):
            yield [each, *rest]


def _decisions(
    domains: Domains, numbering: _Numbering, domain: Domain, used: _Used
) -> Iterator[tuple[VariableStrategy, _Used]]:
    """Every decision for one variable, with the buckets then in use."""
    for cut in domain.cuts:
        servers = domain.servers_for(cut)
        kinds = tuple(domain.bucket_kind(shard) for shard in domain.reductions_for(cut))
        for some, others in [(servers, kinds)] if domain.mixed_shards else [(servers, ()), ((), kinds)]:
            offer = _Offer(some, others, domains.max_buckets, numbering)
            for shards, then_used in offer.fillings(cut.shards if cut else 1, used):
                yield VariableStrategy(domain.variable.name, shards, cut), then_used


class _Offer:
    """What each shard of a variable may take."""

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
        """Ways to synchronize `count` shards; only the next new bucket may be opened, so that none is met twice."""
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

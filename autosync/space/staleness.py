"""Staleness of a draft: one number for all shards.

It is 0 unless all are on parameter servers, uncompressed and without local copies: else replicas wait for each other.
"""

from dataclasses import replace

from autosync.space.domain import Draft
from autosync.space.domains import Domains
from autosync.spec import ParameterServer, Synchronizer, VariableStrategy


def can_be_stale(draft: Draft) -> bool:
    """Whether replicas could run ahead under the draft."""
    return all(isinstance(shard, ParameterServer) and is_plain(shard) for each in draft for shard in each.shards)


def is_plain(server: ParameterServer) -> bool:
    """Whether each replica pulls from it and pushes to it by itself, and gradients as they are."""
    return server.compressor is None and not server.local_copy


def with_staleness(draft: Draft, steps: int) -> Draft:
    """The draft with all its servers at that staleness."""

    def changed(shard: Synchronizer) -> Synchronizer:
        if not isinstance(shard, ParameterServer) or shard.staleness == steps:
            return shard
        return replace(shard, staleness=steps)

    result = []
    for each in draft:
        shards = tuple([changed(shard) for shard in each.shards])
        result.append(each if shards == each.shards else VariableStrategy(each.variable, shards, each.partition))
    return result


def settled(domains: Domains, draft: Draft) -> Draft:
    """The draft with one staleness that the domains offer: the largest of its shards' that is not over theirs."""
    found = {shard.staleness for each in draft for shard in each.shards if isinstance(shard, ParameterServer)}
    if found <= {0}:
        return draft
    most = max(found) if can_be_stale(draft) else 0
    return with_staleness(draft, max(steps for steps in domains.staleness if steps <= most))

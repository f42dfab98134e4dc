"""Staleness of a draft: one number for all shards.

Staleness is 0 unless all shards are on parameter servers, uncompressed and without local copies, because otherwise
replicas wait for each other.
"""

from dataclasses import replace

from autosync.space.domain import Draft
from autosync.space.domains import Domains
from autosync.spec import ParameterServer, Synchronizer, VariableStrategy


def can_be_stale(draft: Draft) -> bool:
    """Whether the draft allows replicas to run ahead."""
    return all(
        isinstance(shard, ParameterServer) and is_plain(shard) for decision in draft for shard in decision.shards
    )


def is_plain(server: ParameterServer) -> bool:
    """Whether every replica pulls from `server` and pushes to it independently and uncompressed."""
    return server.compressor is None and not server.local_copy


def with_staleness(draft: Draft, steps: int) -> Draft:
    """The draft with all servers at staleness `steps`."""

    def change(shard: Synchronizer) -> Synchronizer:
        if not isinstance(shard, ParameterServer) or shard.staleness == steps:
            return shard
        return replace(shard, staleness=steps)

    result = []
    for decision in draft:
        shards = tuple([change(shard) for shard in decision.shards])
        result.append(
            decision if shards == decision.shards else VariableStrategy(decision.variable, shards, decision.partition)
        )
    return result


def settle_staleness(domains: Domains, draft: Draft) -> Draft:
    """The draft with one staleness for all shards: the largest offered one that is at most the shards' largest.

    It is 0 if the draft cannot be stale.
    """
    stalenesses = {
        shard.staleness for decision in draft for shard in decision.shards if isinstance(shard, ParameterServer)
    }
    if stalenesses <= {0}:
        return draft
    most = max(stalenesses) if can_be_stale(draft) else 0
    return with_staleness(draft, max(steps for steps in domains.staleness if steps <= most))

"""Moves that take load off a busy resource: traffic moves to another place, or is sent in another way."""

import random
from collections.abc import Collection, Mapping, Sequence

from autosync.space.buckets import buckets_of
from autosync.space.domain import Draft, kind_of
from autosync.space.domains import Domains
from autosync.space.exchange_moves import with_other_algorithm
from autosync.space.placement import on_other, replace_server, server_loads
from autosync.space.variable_moves import flip, recut
from autosync.spec import ParameterServer

MOST_TOGETHER = 8
"""The most variables that one move changes."""

LEAST_URGENCY = 0.05
"""Every variable of a busy resource can be drawn, also if all of its exchange can be hidden."""


def weigh_by_urgency(domains: Domains, shares: Mapping[int, float]) -> dict[int, float]:
    """The `shares` of variables (by index), weighted by how little of each exchange an overlapped step can hide.

    A gradient that is ready late, of a variable that is read early, travels while the next forward pass waits.
    """
    return {index: share * max(domains.urgencies[index], LEAST_URGENCY) for index, share in shares.items()}


def relieve(
    domains: Domains, draft: Draft, shares: Mapping[int, float], busy: Collection[str], rng: random.Random
) -> Draft | None:
    """Make one move on variables drawn by their `shares` (by index) of a busy resource; None if no move applies.

    `busy` are the servers that load the resource. The move may leave too many buckets; see `within_limits`.
    """
    if not shares:
        return None
    drawn = rng.choices(list(shares), list(shares.values()), k=int((MOST_TOGETHER + 1) ** rng.random()))
    chosen = list(dict.fromkeys(drawn))
    for move in rng.sample(("elsewhere", "other kind", "other cut", "other algorithm"), 4):
        if move == "elsewhere":
            result = _elsewhere(domains, draft, chosen, busy, rng)
        elif move == "other kind":
            result = _of_other_kind(domains, draft, chosen, rng)
        elif move == "other cut":
            result = _cut_otherwise(domains, draft, chosen, rng)
        else:
            result = _by_other_algorithm(domains, draft, chosen, rng)
        if result is not None and result != draft:
            return result
    return None


def _elsewhere(
    domains: Domains, draft: Draft, chosen: Sequence[int], busy: Collection[str], rng: random.Random
) -> Draft | None:
    """For each chosen variable, a shard on a busy server moves to the least loaded server that is not busy."""
    loads = server_loads(domains, draft)
    result = list(draft)
    for index in chosen:
        domain, decision = domains.each[index], result[index]
        free = [device for device in domain.devices if device not in busy]
        movable = [
            (number, shard)
            for number, shard in enumerate(decision.shards)
            if isinstance(shard, ParameterServer) and shard.device in busy
        ]
        if not free or not movable:
            continue
        number, shard = rng.choice(movable)
        least, part = min(loads[device] for device in free), domain.gradient_bytes / len(decision.shards)
        device = rng.choice([device for device in free if loads[device] == least])
        loads[device] += part
        loads[shard.device] -= part
        result[index] = replace_server(decision, number, on_other(domain, shard, device))
    return result


def _of_other_kind(domains: Domains, draft: Draft, chosen: Sequence[int], rng: random.Random) -> Draft | None:
    """The chosen variables that have the first one's kind change between servers and all-reduce."""
    able = [index for index in chosen if index in domains.choosable]
    if not able:
        return None
    kind = kind_of(draft[able[0]].shards[0])
    return flip(domains, draft, [index for index in able if kind_of(draft[index].shards[0]) == kind], rng)


def _cut_otherwise(domains: Domains, draft: Draft, chosen: Sequence[int], rng: random.Random) -> Draft | None:
    able = [index for index in chosen if len(domains.each[index].cuts) > 1]
    return recut(domains, draft, able, rng) if able else None


def _by_other_algorithm(domains: Domains, draft: Draft, chosen: Sequence[int], rng: random.Random) -> Draft | None:
    """A bucket that holds some of the chosen variables is reduced by another algorithm."""
    if not domains.several_algorithms:
        return None
    wanted = frozenset(chosen)
    buckets = buckets_of(domains, draft)
    able = [number for number, bucket in enumerate(buckets) if any(shard.variable in wanted for shard in bucket.shards)]
    return with_other_algorithm(domains, draft, buckets, able, rng)

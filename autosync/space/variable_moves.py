"""Moves that change how variables are synchronized and cut, one variable at a time or many together."""

import random
from collections.abc import Iterable, Sequence

from autosync.space.domain import REDUCED, SERVED, Domain, Draft, kind_of, stands_for_whole
from autosync.space.domains import Domains
from autosync.space.move_context import MoveContext
from autosync.space.placement import biggest
from autosync.spec import ParameterServer, Partition, Synchronizer, VariableStrategy


def flip_one(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One variable changes between parameter servers and all-reduce."""
    return flip(domains, draft, [rng.choice(domains.choosable)], rng) if domains.choosable else None


def flip_alike(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All variables of one shape change to the kind that the first of them does not have."""
    groups = [group for group in domains.alike if len(group) > 1 and len(domains.each[group[0]].kinds) > 1]
    return flip(domains, draft, rng.choice(groups), rng) if groups else None


def flip_big(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """The variables over a random size all change to one kind."""
    big = [index for index in biggest(domains, rng) if index in domains.choosable]
    return flip(domains, draft, big, rng) if big else None


def flip_some_shards(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One shard of a cut variable changes kind, if its shards may differ."""
    cut = [index for index in domains.choosable if domains.each[index].mixed_shards and draft[index].partition]
    if not cut:
        return None
    index = rng.choice(cut)
    decision, domain = draft[index], domains.each[index]
    around = MoveContext(domains, draft, rng)
    shards = list(decision.shards)
    which = rng.randrange(len(shards))
    if kind_of(shards[which]) == SERVED:
        shards[which] = around.bucket(domain, shards[which].compressor, whole=False)
    else:
        part, copied = domain.gradient_bytes / len(shards), _mostly_copied(shards)
        shards[which] = around.server(domain, part, copied, shards[which].compressor, whole=False)
    return [*draft[:index], VariableStrategy(decision.variable, tuple(shards), decision.partition), *draft[index + 1 :]]


def recut_one(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One variable is cut in another way."""
    return recut(domains, draft, [rng.choice(domains.cuttable)], rng) if domains.cuttable else None


def recut_alike(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All variables of one shape are cut in the same new way."""
    groups = [group for group in domains.alike if len(group) > 1 and len(domains.each[group[0]].cuts) > 1]
    return recut(domains, draft, rng.choice(groups), rng) if groups else None


def recut_big(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """The variables over a random size are all cut equally finely."""
    big = [index for index in biggest(domains, rng) if len(domains.each[index].cuts) > 1]
    return recut(domains, draft, big, rng) if big else None


def toggle_local_copy(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One variable's shards on servers get, or lose, their local copies."""
    served = _with_copy_choice(domains, draft)
    return _toggle(domains, draft, [rng.choice(served)]) if served else None


def toggle_local_copies(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All shards on servers get local copies if the majority had none, and lose them otherwise."""
    del rng
    served = _with_copy_choice(domains, draft)
    return _toggle(domains, draft, served) if served else None


def flip(domains: Domains, draft: Draft, indexes: Sequence[int], rng: random.Random) -> Draft:
    """Change all these variables to the kind that the first of them does not have."""
    around = MoveContext(domains, draft, rng)
    result = list(draft)
    kind = REDUCED if kind_of(draft[indexes[0]].shards[0]) == SERVED else SERVED
    for index in indexes:
        decision = draft[index]
        result[index] = _redecide(domains.each[index], decision, decision.partition, kind, around)
    return result


def recut(domains: Domains, draft: Draft, indexes: Iterable[int], rng: random.Random) -> Draft:
    """Cut all these variables in another way, equally finely."""
    around = MoveContext(domains, draft, rng)
    result, level = list(draft), rng.random()
    for index in indexes:
        decision, domain = draft[index], domains.each[index]
        cuts = [cut for cut in domain.cuts if cut != decision.partition]
        kind = kind_of(rng.choice(decision.shards))
        result[index] = _redecide(domain, decision, cuts[int(level * len(cuts))], kind, around)
    return result


def _redecide(
    domain: Domain, decision: VariableStrategy, cut: Partition | None, kind: str, around: MoveContext
) -> VariableStrategy:
    """The variable with a new `cut` and one `kind` of shards, otherwise as similar to its old decision as possible.

    A shard keeps the synchronizer of the old shard at the same position if the kind is right, except on servers if the
    number of shards grows. Other shards go to the least loaded server or to the bucket that is ready nearest. Only
    whole variables keep sufficient factors.
    """
    count, whole = cut.shards if cut else 1, cut is None
    keep = kind == REDUCED or count <= len(decision.shards)
    shards: list[Synchronizer] = []
    for position in range(count):
        old = decision.shards[position * len(decision.shards) // count]
        if kind_of(old) == kind and keep and (whole or not stands_for_whole(old)):
            shards.append(old)
        elif kind == REDUCED:
            shards.append(around.bucket(domain, old.compressor, whole))
        else:
            part, copied = domain.gradient_bytes / count, _mostly_copied(decision.shards)
            shards.append(around.server(domain, part, copied, old.compressor, whole))
    return VariableStrategy(decision.variable, tuple(shards), cut)


def _with_copy_choice(domains: Domains, draft: Draft) -> list[int]:
    return [
        index
        for index, (domain, decision) in enumerate(zip(domains.each, draft, strict=True))
        if len(domain.copies) > 1 and any(kind_of(shard) == SERVED for shard in decision.shards)
    ]


def _toggle(domains: Domains, draft: Draft, indexes: list[int]) -> Draft:
    wanted = not _mostly_copied([shard for index in indexes for shard in draft[index].shards])
    result = list(draft)
    for index in indexes:
        decision, domain = draft[index], domains.each[index]
        shards = tuple(
            domain.on(shard.device, wanted, shard.compressor) if isinstance(shard, ParameterServer) else shard
            for shard in decision.shards
        )
        result[index] = VariableStrategy(decision.variable, shards, decision.partition)
    return result


def _mostly_copied(shards: Iterable[Synchronizer]) -> bool:
    copies = [shard.local_copy for shard in shards if isinstance(shard, ParameterServer)]
    return sum(copies) * 2 > len(copies)

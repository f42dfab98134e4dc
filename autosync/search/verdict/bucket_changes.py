"""Changes that revert what is decided for buckets: the algorithm of each, and which gradients share one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, final

from autosync.spec import AllReduce, ModelSpec, Strategy, Synchronizer, VariableStrategy
from autosync.words.quantities import megabytes
from autosync.words.strategy import algorithm_in_words

LARGE_SHARE = 0.1
"""Share of the bytes of all gradients from which on a variable is a decision of its own."""


@final
@dataclass(frozen=True)
class Contrast:
    """Two strategies of `model`. Groups from `free_group` on are in neither, even with the baseline's moved up."""

    model: ModelSpec
    winner: Strategy
    baseline: Strategy

    def bytes(self, name: str) -> float:
        """The bytes of one replica's gradient of the variable."""
        return self.model.by_name[name].gradient_bytes

    def is_large(self, name: str) -> bool:
        return self.bytes(name) >= LARGE_SHARE * self.model.gradient_bytes

    def is_summed(self, name: str, shard: Synchronizer) -> bool:
        """Whether the shard is added up in a bucket with others, rather than gathered for itself or on a server."""
        return isinstance(shard, AllReduce) and not shard.gathers and not self.model.by_name[name].sparse

    @cached_property
    def moved_up(self) -> int:
        """What is added to the baseline's groups so that they are none of the winner's."""
        return 1 + max((shard.group for _, _, shard in self.winner.shards() if isinstance(shard, AllReduce)), default=0)

    @cached_property
    def free_group(self) -> int:
        theirs = (shard.group for _, _, shard in self.baseline.shards() if isinstance(shard, AllReduce))
        return self.moved_up + 1 + max(theirs, default=0)

    def their_shard(self, name: str, index: int) -> Synchronizer:
        """The baseline's shard of that index, or its first shard where the baseline cuts the variable otherwise."""
        shards = self.baseline.by_name[name].shards
        return shards[index] if len(shards) == len(self.winner.by_name[name].shards) else shards[0]

    @cached_property
    def hosts(self) -> dict[int, AllReduce]:
        """The winner's bucket that holds most bytes of a baseline's bucket, by the group of the latter."""
        held: dict[int, dict[AllReduce, float]] = {}
        for each, index, ours in self.winner.shards():
            theirs = self.their_shard(each.variable, index)
            if isinstance(ours, AllReduce) and isinstance(theirs, AllReduce) and self.is_summed(each.variable, ours):
                within = held.setdefault(theirs.group, {})
                within[ours] = within.get(ours, 0.0) + self.bytes(each.variable) / len(each.shards)
        return {group: max(within, key=lambda ours: within[ours]) for group, within in held.items()}


def named(names: list[str], contrast: Contrast) -> str:
    """Variables in a few words: by name when it is one, else counted with their bytes."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} variables ({megabytes(sum(map(contrast.bytes, names)))})"


Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class _Member:
    """A shard in one of the winner's buckets; `theirs` is the baseline's all-reduce of it, if it has one."""

    variable: str
    index: int
    ours: AllReduce
    theirs: AllReduce | None
    bytes: float


def bucket_changes(contrast: Contrast) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Yield each change in words, with the decisions that it makes, by variable."""
    members = list(_members(contrast))
    ours = _by(members, lambda member: member.ours.group)
    for bucket in ours.values():
        yield from _algorithm(contrast, bucket)
    for bucket in ours.values():
        yield from _taken_apart(contrast, bucket)
    known = [member for member in members if member.theirs is not None]
    for bucket in _by(known, lambda member: member.theirs.group if member.theirs else 0).values():
        yield from _put_together(contrast, bucket)


def _members(contrast: Contrast) -> Iterator[_Member]:
    for each, index, shard in contrast.winner.shards():
        if isinstance(shard, AllReduce) and contrast.is_summed(each.variable, shard):
            their = contrast.their_shard(each.variable, index)
            theirs = their if isinstance(their, AllReduce) and contrast.is_summed(each.variable, their) else None
            yield _Member(each.variable, index, shard, theirs, contrast.bytes(each.variable) / len(each.shards))


def _algorithm(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """The bucket with the algorithm that the baseline has for most of its bytes; a ring if it all-reduces none."""
    here = bucket[0].ours.algorithm
    by_algorithm = _by([member for member in bucket if member.theirs], lambda m: m.theirs.algorithm if m.theirs else "")
    there = max(by_algorithm, key=lambda name: _bytes(by_algorithm[name]), default="ring")
    if here != there:
        said = f"{algorithm_in_words(there)} all-reduce, not {algorithm_in_words(here)}"
        changed = [(member, replace(member.ours, algorithm=there)) for member in bucket]
        yield f"{_named(bucket, contrast)}: {said}", _decisions(contrast, changed)


def _taken_apart(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """The bucket split as in the baseline; the largest part, and what the baseline does not all-reduce, stays."""
    parts = list(_by([m for m in bucket if m.theirs], lambda m: m.theirs.group if m.theirs else 0).values())
    if len(parts) < 2:
        return
    parts.sort(key=_bytes, reverse=True)
    changed = [
        (member, replace(member.ours, group=contrast.free_group + number))
        for number, part in enumerate(parts[1:])
        for member in part
    ]
    stay = [(member, member.ours) for member in bucket]
    yield f"{_named(bucket, contrast)}: in {len(parts)} buckets, not one", _decisions(contrast, [*stay, *changed])


def _put_together(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Members of one bucket there and several here, all in the largest of these; those of another kind stay."""
    every = sorted(_by(bucket, lambda member: member.ours.group).values(), key=_bytes, reverse=True)
    parts = [part for part in every if _kind(contrast, part[0]) == _kind(contrast, every[0][0])]
    if len(parts) < 2:
        return
    host = parts[0][0].ours.group
    together = [member for part in parts for member in part]
    merged = [(member, replace(member.ours, group=host)) for member in together]
    yield f"{_named(together, contrast)}: in one bucket, not {len(parts)}", _decisions(contrast, merged)


def _decisions(contrast: Contrast, changed: Sequence[tuple[_Member, AllReduce]]) -> dict[str, VariableStrategy]:
    decisions: dict[str, VariableStrategy] = {}
    for member, shard in changed:
        each = decisions.get(member.variable, contrast.winner.by_name[member.variable])
        shards = (*each.shards[: member.index], shard, *each.shards[member.index + 1 :])
        decisions[member.variable] = replace(each, shards=shards)
    return decisions


def _by(members: list[_Member], key: Callable[[_Member], Key]) -> dict[Key, list[_Member]]:
    groups: dict[Key, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def _kind(contrast: Contrast, member: _Member) -> tuple[object, ...]:
    """What all members of a bucket have in common."""
    return contrast.model.by_name[member.variable].dtype, member.ours.algorithm, member.ours.compressor


def _bytes(members: list[_Member]) -> float:
    return sum(member.bytes for member in members)


def _named(members: list[_Member], contrast: Contrast) -> str:
    return named(list(dict.fromkeys(member.variable for member in members)), contrast)

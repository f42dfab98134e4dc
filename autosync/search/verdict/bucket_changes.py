"""Changes that revert the decisions about buckets: each bucket's algorithm, and which gradients share a bucket."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, final

from autosync.spec import AllReduce, ModelSpec, Strategy, Synchronizer, VariableStrategy
from autosync.words.quantities import megabytes
from autosync.words.strategy import algorithm_in_words

LARGE_SHARE = 0.1
"""A variable with at least this share of the bytes of all gradients gets changes of its own."""


@final
@dataclass(frozen=True)
class Contrast:
    """Two strategies of `model`. No group number from `free_group` on is used, even after `group_offset` is added."""

    model: ModelSpec
    winner: Strategy
    baseline: Strategy

    def bytes(self, name: str) -> float:
        """The bytes of one replica's gradient of the variable."""
        return self.model.by_name[name].gradient_bytes

    def is_large(self, name: str) -> bool:
        return self.bytes(name) >= LARGE_SHARE * self.model.gradient_bytes

    def is_summed(self, name: str, shard: Synchronizer) -> bool:
        """Whether the shard is all-reduced in a bucket with others, rather than gathered separately or summed on a
        server.
        """
        return isinstance(shard, AllReduce) and not shard.gathers and not self.model.by_name[name].sparse

    @cached_property
    def group_offset(self) -> int:
        """The number to add to the baseline's groups so that they differ from all of the winner's."""
        return 1 + max((shard.group for _, _, shard in self.winner.shards() if isinstance(shard, AllReduce)), default=0)

    @cached_property
    def free_group(self) -> int:
        theirs = (shard.group for _, _, shard in self.baseline.shards() if isinstance(shard, AllReduce))
        return self.group_offset + 1 + max(theirs, default=0)

    def their_shard(self, name: str, index: int) -> Synchronizer:
        """The baseline's shard with that index, or its first shard if the baseline cuts the variable differently."""
        shards = self.baseline.by_name[name].shards
        return shards[index] if len(shards) == len(self.winner.by_name[name].shards) else shards[0]

    @cached_property
    def hosts(self) -> dict[int, AllReduce]:
        """For each group of the baseline, the winner's bucket that holds most of its bytes."""
        held: dict[int, dict[AllReduce, float]] = {}
        for decision, index, ours in self.winner.shards():
            theirs = self.their_shard(decision.variable, index)
            if (
                isinstance(ours, AllReduce)
                and isinstance(theirs, AllReduce)
                and self.is_summed(decision.variable, ours)
            ):
                within = held.setdefault(theirs.group, {})
                within[ours] = within.get(ours, 0.0) + self.bytes(decision.variable) / len(decision.shards)
        return {group: max(within, key=lambda ours: within[ours]) for group, within in held.items()}


def variables_in_words(names: list[str], contrast: Contrast) -> str:
    """Describe the variables in a few words: a single one by name, several by their number and bytes."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} variables ({megabytes(sum(map(contrast.bytes, names)))})"


Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class _Member:
    """A shard in one of the winner's buckets."""

    variable: str
    index: int
    ours: AllReduce
    """The winner's all-reduce of the shard."""
    theirs: AllReduce | None
    """The baseline's all-reduce of the shard; None if the baseline does not all-reduce it in a bucket."""
    bytes: float


def bucket_changes(contrast: Contrast) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Yield each change in words, with its decisions by variable."""
    members = list(_members(contrast))
    ours = _by(members, lambda member: member.ours.group)
    for bucket in ours.values():
        yield from _change_algorithm(contrast, bucket)
    for bucket in ours.values():
        yield from _split_bucket(contrast, bucket)
    known = [member for member in members if member.theirs is not None]
    for bucket in _by(known, lambda member: member.theirs.group if member.theirs else 0).values():
        yield from _merge_buckets(contrast, bucket)


def _members(contrast: Contrast) -> Iterator[_Member]:
    for decision, index, shard in contrast.winner.shards():
        if isinstance(shard, AllReduce) and contrast.is_summed(decision.variable, shard):
            their = contrast.their_shard(decision.variable, index)
            theirs = their if isinstance(their, AllReduce) and contrast.is_summed(decision.variable, their) else None
            yield _Member(
                decision.variable, index, shard, theirs, contrast.bytes(decision.variable) / len(decision.shards)
            )


def _change_algorithm(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Give the bucket the baseline's algorithm for most of its bytes, or a ring if the baseline all-reduces none of
    them.
    """
    here = bucket[0].ours.algorithm
    by_algorithm = _by([member for member in bucket if member.theirs], lambda m: m.theirs.algorithm if m.theirs else "")
    there = max(by_algorithm, key=lambda name: _bytes(by_algorithm[name]), default="ring")
    if here != there:
        words = f"{algorithm_in_words(there)} all-reduce, not {algorithm_in_words(here)}"
        changed = [(member, replace(member.ours, algorithm=there)) for member in bucket]
        yield f"{_bucket_in_words(bucket, contrast)}: {words}", _decisions(contrast, changed)


def _split_bucket(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Split the bucket as in the baseline. The largest part, and shards that the baseline does not all-reduce, stay."""
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
    yield (
        f"{_bucket_in_words(bucket, contrast)}: in {len(parts)} buckets, not one",
        _decisions(contrast, [*stay, *changed]),
    )


def _merge_buckets(contrast: Contrast, bucket: list[_Member]) -> Iterator[tuple[str, dict[str, VariableStrategy]]]:
    """Merge members that share a bucket of the baseline but not of the winner into the largest bucket.

    Members of a different kind stay.
    """
    by_size = sorted(_by(bucket, lambda member: member.ours.group).values(), key=_bytes, reverse=True)
    parts = [part for part in by_size if _kind(contrast, part[0]) == _kind(contrast, by_size[0][0])]
    if len(parts) < 2:
        return
    host = parts[0][0].ours.group
    together = [member for part in parts for member in part]
    merged = [(member, replace(member.ours, group=host)) for member in together]
    yield f"{_bucket_in_words(together, contrast)}: in one bucket, not {len(parts)}", _decisions(contrast, merged)


def _decisions(contrast: Contrast, changed: Sequence[tuple[_Member, AllReduce]]) -> dict[str, VariableStrategy]:
    decisions: dict[str, VariableStrategy] = {}
    for member, shard in changed:
        decision = decisions.get(member.variable, contrast.winner.by_name[member.variable])
        shards = (*decision.shards[: member.index], shard, *decision.shards[member.index + 1 :])
        decisions[member.variable] = replace(decision, shards=shards)
    return decisions


def _by(members: list[_Member], key: Callable[[_Member], Key]) -> dict[Key, list[_Member]]:
    groups: dict[Key, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def _kind(contrast: Contrast, member: _Member) -> tuple[object, ...]:
    """The properties that all members of a bucket share."""
    return contrast.model.by_name[member.variable].dtype, member.ours.algorithm, member.ours.compressor


def _bytes(members: list[_Member]) -> float:
    return sum(member.bytes for member in members)


def _bucket_in_words(members: list[_Member], contrast: Contrast) -> str:
    return variables_in_words(list(dict.fromkeys(member.variable for member in members)), contrast)

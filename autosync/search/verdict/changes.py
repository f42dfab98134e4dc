"""The changes that turn a winner into counterfactuals: each reverts one decision in which it differs from a baseline.

A variable's decision has parts: how its gradients are summed (a server or an all-reduce), how it is cut, its device,
whether replicas have local copies, its encoding, and whether looked-up rows are sent apart. A bucket has its members
and its algorithm. Variables with the same reverted part form one change, but a variable with a large share of the bytes
gets a change of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

from autosync.search.verdict.bucket_changes import Contrast, bucket_changes, variables_in_words
from autosync.spec import AllReduce, ModelSpec, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy
from autosync.words.strategy import compressor_in_words

Part: TypeAlias = Callable[[Contrast, str], tuple[str, VariableStrategy] | None]
"""A function that reverts one part of a variable's decision: returns the replacement in words and the new decision, or
None if both strategies agree.
"""


@final
@dataclass(frozen=True)
class Change:
    """One reverted decision."""

    label: str
    """The replacement, in words."""
    decisions: Mapping[str, VariableStrategy] = field(default_factory=dict)
    """The replaced decisions by variable; empty if only the order of the replicas or the end of steps changes."""
    replicas: tuple[str, ...] | None = None
    """The new order of the replicas; None if it does not change."""
    overlap: bool | None = None
    """Whether steps then overlap with the next forward pass; None if that does not change."""


def changes(model: ModelSpec, winner: Strategy, baseline: Strategy) -> Iterator[Change]:
    """Yield changes towards `baseline`, one decision each. A change may be invalid or have no effect.

    An overlap with the next forward pass is always reverted, because many overlapped strategies are nearest to a
    baseline that overlaps, too.
    """
    contrast = Contrast(model, winner, baseline)
    for part in PARTS:
        yield from _group_changes(contrast, part)
    for label, decisions in bucket_changes(contrast):
        yield Change(label, decisions)
    if winner.staleness != baseline.staleness:
        yield _staleness(contrast)
    if winner.overlap_next_forward:
        yield Change("all steps end with a barrier", overlap=False)
    if winner.replicas != baseline.replicas and set(winner.replicas) == set(baseline.replicas):
        yield Change("replicas in the baseline's order", replicas=baseline.replicas)


def _group_changes(contrast: Contrast, part: Part) -> Iterator[Change]:
    """Merge variables with the same change into one. Large variables get their own, except for the encoding, because
    buckets share that.
    """
    groups: dict[tuple[str, str], dict[str, VariableStrategy]] = {}
    for name in contrast.winner.by_name:
        reversal = part(contrast, name)
        if reversal is not None:
            words, decision = reversal
            alone = name if contrast.is_large(name) and part is not _encoding else ""
            groups.setdefault((words, alone), {})[name] = decision
    for (words, _), decisions in groups.items():
        yield Change(f"{variables_in_words(list(decisions), contrast)}: {words}", decisions)


def _synchronizer(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    if _kinds(ours) == _kinds(theirs):
        return None
    shards = tuple(_move_to_host(contrast, name, shard) for shard in theirs.shards)
    decision = replace(theirs, shards=shards, rows_apart=ours.rows_apart)
    return f"{_summation_in_words(theirs)}, not {_summation_in_words(ours)}", decision


def _move_to_host(contrast: Contrast, name: str, shard: Synchronizer) -> Synchronizer:
    """Return the baseline's shard, moved to the winner's bucket of its neighbours in the baseline, if they have one
    there.
    """
    if not isinstance(shard, AllReduce):
        return shard
    host = contrast.hosts.get(shard.group) if contrast.is_summed(name, shard) else None
    return host or replace(shard, group=contrast.group_offset + shard.group)


def _cut(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    if ours.partition == theirs.partition:
        return None
    words = f"{_cut_in_words(theirs.partition)}, not {_cut_in_words(ours.partition)}"
    if _kinds(ours) != _kinds(theirs):
        # The baseline has no devices for the winner's shards. A single whole shard can stay where the first shard is.
        return None if theirs.partition else (words, replace(ours, shards=ours.shards[:1], partition=None))
    shards = tuple(_at(ours.shards[index % len(ours.shards)], their) for index, their in enumerate(theirs.shards))
    return words, replace(ours, shards=shards, partition=theirs.partition)


def _device(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    if ours.partition != theirs.partition or _kinds(ours) != {ParameterServer} or _kinds(theirs) != {ParameterServer}:
        return None
    shards = tuple(_at(mine, their) for mine, their in zip(ours.shards, theirs.shards, strict=True))
    if shards == ours.shards:
        return None
    words = "on the baseline's servers"
    if len(shards) == 1 and contrast.is_large(name):
        words = f"on {_devices(shards)}, not {_devices(ours.shards)}"
    return words, replace(ours, shards=shards)


def _copies(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    here, there = _has_copies(ours), _has_copies(theirs)
    if here == there or not (here or _kinds(ours) == {ParameterServer}):
        return None
    shards = tuple(
        replace(shard, local_copy=there) if isinstance(shard, ParameterServer) else shard for shard in ours.shards
    )
    return f"{'with' if there else 'without'} local copies", replace(ours, shards=shards)


def _encoding(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    here = ours.shards[0].compressor
    there = theirs.shards[0].compressor if _kinds(ours) == _kinds(theirs) else None
    if here == there:
        return None
    instead, now = (
        compressor_in_words(compressor) if compressor else "gradients as they are" for compressor in (there, here)
    )
    shards = tuple(replace(shard, compressor=there) for shard in ours.shards)
    return f"{instead}, not {now}", replace(ours, shards=shards)


def _rows(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours = contrast.winner.by_name[name]
    if ours.rows_apart == contrast.baseline.by_name[name].rows_apart:
        return None
    words = "sent together with the rest" if ours.rows_apart else "sent apart"
    return f"looked-up rows {words}", replace(ours, rows_apart=not ours.rows_apart)


PARTS: tuple[Part, ...] = (_synchronizer, _cut, _device, _copies, _encoding, _rows)


def _staleness(contrast: Contrast) -> Change:
    """Revert the staleness of all shards. They share one staleness, so this is one decision."""
    here, there = contrast.winner.staleness, contrast.baseline.staleness
    decisions = {
        decision.variable: replace(
            decision,
            shards=tuple(
                replace(shard, staleness=there) if isinstance(shard, ParameterServer) else shard
                for shard in decision.shards
            ),
        )
        for decision in contrast.winner.variables
    }
    return Change(f"all variables: staleness {there}, not {here}", decisions)


def _kinds(decision: VariableStrategy) -> set[type[Synchronizer]]:
    return {type(shard) for shard in decision.shards}


def _summation_in_words(decision: VariableStrategy) -> str:
    kinds = _kinds(decision)
    if len(kinds) > 1:
        return "partly on a server"
    return "all-reduced" if AllReduce in kinds else "on a server"


def _at(mine: Synchronizer, their: Synchronizer) -> Synchronizer:
    """Return the winner's shard on the baseline's device. An all-reduced shard stays in its bucket."""
    if isinstance(mine, ParameterServer) and isinstance(their, ParameterServer):
        return replace(mine, device=their.device)
    return mine


def _has_copies(decision: VariableStrategy) -> bool:
    return any(isinstance(shard, ParameterServer) and shard.local_copy for shard in decision.shards)


def _cut_in_words(cut: Partition | None) -> str:
    return f"cut in {cut.shards} along axis {cut.axis}" if cut else "whole"


def _devices(shards: tuple[Synchronizer, ...]) -> str:
    return ", ".join(shard.device for shard in shards if isinstance(shard, ParameterServer))

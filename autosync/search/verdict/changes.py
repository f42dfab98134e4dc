"""What makes a winner a counterfactual: each decision in which it differs from a baseline, and what reverts that one.

A variable's decision has parts: who adds it up (a server or an all-reduce), how it is cut, on which device it is, with
or without local copies, in which encoding; a bucket has its members and its algorithm. Parts that are reverted alike go
together, but a variable with a large share of the bytes stands for itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

from autosync.search.verdict.bucket_changes import Contrast, bucket_changes, named
from autosync.spec import AllReduce, ModelSpec, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy
from autosync.words.strategy import compressor_in_words

Part: TypeAlias = Callable[[Contrast, str], tuple[str, VariableStrategy] | None]
"""One part of a variable's decision: what is decided instead, in words, and the decision; None where both agree."""


@final
@dataclass(frozen=True)
class Change:
    """One decision reverted.

    `label` says what is decided instead; `decisions`, by variable, make it so, or `replicas` where their order is it.
    """

    label: str
    decisions: Mapping[str, VariableStrategy] = field(default_factory=dict)
    replicas: tuple[str, ...] | None = None


def changes(model: ModelSpec, winner: Strategy, baseline: Strategy) -> Iterator[Change]:
    """Changes towards `baseline`, one decision each. Not every one need be valid, or change what is done."""
    contrast = Contrast(model, winner, baseline)
    for part in PARTS:
        yield from _grouped(contrast, part)
    for label, decisions in bucket_changes(contrast):
        yield Change(label, decisions)
    if winner.staleness != baseline.staleness:
        yield _staleness(contrast)
    if winner.replicas != baseline.replicas and set(winner.replicas) == set(baseline.replicas):
        yield Change("replicas in the baseline's order", replicas=baseline.replicas)


def _grouped(contrast: Contrast, part: Part) -> Iterator[Change]:
    """One change for variables reverted alike; large ones alone, except for their encoding, which buckets share."""
    groups: dict[tuple[str, str], dict[str, VariableStrategy]] = {}
    for name in contrast.winner.by_name:
        found = part(contrast, name)
        if found is not None:
            words, decision = found
            alone = name if contrast.is_large(name) and part is not _encoding else ""
            groups.setdefault((words, alone), {})[name] = decision
    for (words, _), decisions in groups.items():
        yield Change(f"{named(list(decisions), contrast)}: {words}", decisions)


def _synchronizer(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    if _kinds(ours) == _kinds(theirs):
        return None
    shards = tuple(_hosted(contrast, name, shard) for shard in theirs.shards)
    return f"{_who(theirs)}, not {_who(ours)}", replace(theirs, shards=shards)


def _hosted(contrast: Contrast, name: str, shard: Synchronizer) -> Synchronizer:
    """The baseline's shard; where its neighbours there have a bucket of the winner's, what was decided for that."""
    if not isinstance(shard, AllReduce):
        return shard
    host = contrast.hosts.get(shard.group) if contrast.is_summed(name, shard) else None
    return host or replace(shard, group=contrast.moved_up + shard.group)


def _cut(contrast: Contrast, name: str) -> tuple[str, VariableStrategy] | None:
    ours, theirs = contrast.winner.by_name[name], contrast.baseline.by_name[name]
    if ours.partition == theirs.partition:
        return None
    words = f"{_cut_in_words(theirs.partition)}, not {_cut_in_words(ours.partition)}"
    if _kinds(ours) != _kinds(theirs):
        # The baseline does not say where this winner's shards would be, but one whole shard is somewhere.
        return None if theirs.partition else (words, VariableStrategy(name, ours.shards[:1]))
    shards = tuple(_at(ours.shards[index % len(ours.shards)], their) for index, their in enumerate(theirs.shards))
    return words, VariableStrategy(name, shards, theirs.partition)


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
    instead, now = (compressor_in_words(each) if each else "gradients as they are" for each in (there, here))
    shards = tuple(replace(shard, compressor=there) for shard in ours.shards)
    return f"{instead}, not {now}", replace(ours, shards=shards)


PARTS: tuple[Part, ...] = (_synchronizer, _cut, _device, _copies, _encoding)


def _staleness(contrast: Contrast) -> Change:
    """Reverts the staleness of all shards, which share one, so that it is one decision."""
    here, there = contrast.winner.staleness, contrast.baseline.staleness
    decisions = {
        each.variable: replace(
            each,
            shards=tuple(
                replace(shard, staleness=there) if isinstance(shard, ParameterServer) else shard
                for shard in each.shards
            ),
        )
        for each in contrast.winner.variables
    }
    return Change(f"all variables: staleness {there}, not {here}", decisions)


def _kinds(each: VariableStrategy) -> set[type[Synchronizer]]:
    return {type(shard) for shard in each.shards}


def _who(each: VariableStrategy) -> str:
    kinds = _kinds(each)
    if len(kinds) > 1:
        return "partly on a server"
    return "all-reduced" if AllReduce in kinds else "on a server"


def _at(mine: Synchronizer, their: Synchronizer) -> Synchronizer:
    """The winner's shard on the baseline's device; an all-reduced one stays in its bucket."""
    if isinstance(mine, ParameterServer) and isinstance(their, ParameterServer):
        return replace(mine, device=their.device)
    return mine


def _has_copies(each: VariableStrategy) -> bool:
    return any(isinstance(shard, ParameterServer) and shard.local_copy for shard in each.shards)


def _cut_in_words(cut: Partition | None) -> str:
    return f"cut in {cut.shards} along axis {cut.axis}" if cut else "whole"


def _devices(shards: tuple[Synchronizer, ...]) -> str:
    return ", ".join(shard.device for shard in shards if isinstance(shard, ParameterServer))

"""A strategy in words."""

from __future__ import annotations

from collections import defaultdict

from autosync.spec import AllReduce, ModelSpec, ParameterServer, Strategy, Variable, shard_sizes
from trials.summary import megabytes

__all__ = ["strategy_in_words"]

NAMED = 3
"""Variables named one by one before the rest are only counted."""


def strategy_in_words(strategy: Strategy, model: ModelSpec) -> list[str]:
    """What the strategy does, a sentence for every kind of decision."""
    return [*_reduced(strategy, model), *_served(strategy, model), *_cut(strategy, model)]


def _shard_bytes(strategy: Strategy, model: ModelSpec) -> list[tuple[Variable, int, ParameterServer | AllReduce]]:
    pieces = []
    for each, index, synchronizer in strategy.shards():
        variable = model.by_name[each.variable]
        rows = variable.shape[each.partition.axis] if each.partition else 1
        share = shard_sizes(rows, len(each.shards))[index] / rows if each.partition else 1.0
        pieces.append((variable, round(variable.bytes * share), synchronizer))
    return pieces


def _reduced(strategy: Strategy, model: ModelSpec) -> list[str]:
    buckets: dict[int, int] = defaultdict(int)
    names: dict[str, int] = {}
    gathered: dict[str, int] = defaultdict(int)
    for variable, size, synchronizer in _shard_bytes(strategy, model):
        if isinstance(synchronizer, AllReduce) and variable.sparse:
            gathered[variable.name] += size
        elif isinstance(synchronizer, AllReduce):
            buckets[synchronizer.group] += size
            names[variable.name] = names.get(variable.name, 0) + size
    lines = []
    if buckets:
        sizes = sorted(buckets.values(), reverse=True)
        shown = ", ".join(megabytes(size) for size in sizes[:6]) + (", ..." if len(sizes) > 6 else "")
        plural = "s" if len(sizes) > 1 else ""
        lines.append(f"Ring all-reduce in {len(sizes)} bucket{plural} ({shown}): {_listed(names)}.")
    if gathered:
        lines.append(f"Touched rows gathered by every replica: {_listed(gathered)}.")
    return lines


def _served(strategy: Strategy, model: ModelSpec) -> list[str]:
    by_server: dict[str, dict[str, int]] = {}
    for variable, size, synchronizer in _shard_bytes(strategy, model):
        if isinstance(synchronizer, ParameterServer):
            held = by_server.setdefault(synchronizer.device, {})
            held[variable.name] = held.get(variable.name, 0) + size
    return [f"Parameter server {device}: {_listed(held)}." for device, held in sorted(by_server.items())]


def _cut(strategy: Strategy, model: ModelSpec) -> list[str]:
    cut = {
        f"{each.variable} ({each.partition.shards} on axis {each.partition.axis})": model.by_name[each.variable].bytes
        for each in strategy.variables
        if each.partition
    }
    return [f"Cut into shards: {_listed(cut)}."] if cut else []


def _listed(sizes: dict[str, int]) -> str:
    """The biggest by name, the others by number, and the bytes in all."""
    biggest = sorted(sizes, key=lambda name: -sizes[name])
    text = ", ".join(biggest[:NAMED])
    if len(biggest) > NAMED:
        text += f" and {len(biggest) - NAMED} more"
    return f"{text}; {megabytes(sum(sizes.values()))}"

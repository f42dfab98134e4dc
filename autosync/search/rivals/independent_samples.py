"""The original's sampler: draws each variable's decision independently, then balances servers and buckets over all of
them.

petuum/autodist, commit 245a9d8, `RandomStrategySampler`, with the constraints of its `AutoStrategy`: up to 20 buckets,
2 to 40 shards, placement "sorted_christy", buckets "ordered_balanced". A variable is cut or not, on servers or
all-reduced, with equal odds; a sparse one is always on servers, and cut along its first axis. Variables share no style,
unlike in `autosync.space.sampling`, which begins by drawing one.
"""

import math
import random
from collections.abc import Sequence

from autosync.space import SearchSpace
from autosync.space.domain import REDUCED, Domain
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy

MOST_BUCKETS = 20
MOST_SHARDS = 40


def independent_sample(space: SearchSpace, rng: random.Random) -> Strategy:
    """Return a strategy drawn by that sampler, moved into the space with the least change."""
    domains = space.domains.each
    cuts = [_draw_cut(domain, rng) for domain in domains]
    shards_of = [range(cut.shards if cut else 1) for cut in cuts]
    reduced = [[_is_reduced(domain, rng) for _ in shards] for domain, shards in zip(domains, shards_of, strict=True)]
    copied = [not domain.variable.sparse and rng.random() < 0.5 for domain in domains]
    devices = _place_shards(space, reduced, rng)
    groups = _group_shards(domains, reduced, rng)
    variables = []
    for index, (domain, cut) in enumerate(zip(domains, cuts, strict=True)):
        shards: list[Synchronizer] = []
        for shard, is_reduced in enumerate(reduced[index]):
            at = index, shard
            shards.append(AllReduce(groups[at]) if is_reduced else ParameterServer(devices[at], copied[index]))
        variables.append(VariableStrategy(domain.variable.name, tuple(shards), cut))
    overlaps = space.domains.overlap and rng.random() < 0.5  # a decision that the original does not have
    drawn = Strategy(space.replicas, tuple(variables), overlap_next_forward=overlaps)
    return space.adopt(drawn, random.Random(0))


def _draw_cut(domain: Domain, rng: random.Random) -> Partition | None:
    axes = [axis for axis, size in enumerate(domain.variable.shape) if size > 1]
    if domain.variable.sparse:
        axes = [axis for axis in axes if axis == 0]
    if not axes or rng.random() < 0.5:
        return None
    axis = rng.choice(axes)
    return Partition(axis, rng.randint(2, min(domain.variable.shape[axis], MOST_SHARDS)))


def _is_reduced(domain: Domain, rng: random.Random) -> bool:
    if len(domain.kinds) == 1:
        return domain.kinds == (REDUCED,)
    return not domain.variable.sparse and rng.random() < 0.5


def _place_shards(
    space: SearchSpace, reduced: Sequence[Sequence[bool]], rng: random.Random
) -> dict[tuple[int, int], str]:
    """Choose the server of each shard on a server, as "sorted_christy" does; returns devices by variable and shard.

    The largest shards come first. Each server is drawn from the softmax of the bytes it lacks of its share. Because
    these are bytes, the draw is nearly always the server that lacks most.
    """
    devices = space.domains.devices
    parts = [
        (domain.gradient_bytes / len(is_reduced_by_shard), index, shard)
        for index, (domain, is_reduced_by_shard) in enumerate(zip(space.domains.each, reduced, strict=True))
        for shard, is_reduced in enumerate(is_reduced_by_shard)
        if not is_reduced
    ]
    parts.sort(key=lambda part: -part[0])
    lacking = _shares(space, devices, sum(part for part, _, _ in parts))
    placed = {}
    for part, index, shard in parts:
        most = max(lacking.values())
        weights = [math.exp(max(lacking[device] - most, -700.0)) for device in devices]
        (device,) = rng.choices(devices, weights)
        lacking[device] -= part
        placed[index, shard] = device
    return placed


def _shares(space: SearchSpace, devices: Sequence[str], total_bytes: float) -> dict[str, float]:
    """Return the bytes that each server should hold, in proportion to the rate of its node's slowest link."""
    rates = {}
    for device in devices:
        node = device.rpartition("/")[0]
        rates[device] = min(
            (link.gbit_per_s.value for link in space.cluster.links if node in (link.source, link.target)), default=1.0
        )
    return {device: total_bytes * rate / sum(rates.values()) for device, rate in rates.items()}


def _group_shards(
    domains: Sequence[Domain], reduced: Sequence[Sequence[bool]], rng: random.Random
) -> dict[tuple[int, int], int]:
    """Choose the bucket of each all-reduced shard, as "ordered_balanced" does.

    In graph order, a new bucket begins whenever the last one has reached its share of the bytes.
    """
    parts = [
        (domain.gradient_bytes / len(is_reduced_by_shard), index, shard)
        for index, (domain, is_reduced_by_shard) in enumerate(zip(domains, reduced, strict=True))
        for shard, is_reduced in enumerate(is_reduced_by_shard)
        if is_reduced
    ]
    if not parts:
        return {}
    share = sum(part for part, _, _ in parts) / rng.randint(1, min(len(parts), MOST_BUCKETS))
    group, held = 0, 0.0
    groups = {}
    for part, index, shard in parts:
        if held >= share:
            group, held = group + 1, 0.0
        held += part
        groups[index, shard] = group
    return groups

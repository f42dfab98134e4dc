"""Adoption: the strategy inside a space that is nearest to one outside it."""

import math
import random
from dataclasses import replace

from autosync.space.domain import REDUCED, SERVED, Domain, Draft, kind_of
from autosync.space.domains import Domains
from autosync.space.placement import lightest
from autosync.space.sampling import sampled
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy


def adopted(domains: Domains, strategy: Strategy, rng: random.Random) -> Draft:
    """The strategy's decisions, each changed as little as the domains ask for.

    A cut becomes the offered one nearest in count of shards; a server that is not offered becomes the least loaded one
    that is, on the same node if there is one; an algorithm or compressor that is not offered becomes the first one that
    is, and none at all if there is a choice. Variables the strategy does not decide are sampled. The draft may hold too
    many buckets, and more than one staleness; see `within_limits` and `settled`.
    """
    spare = sampled(domains, rng)
    loads = dict.fromkeys(domains.devices, 0.0)
    draft: Draft = []
    for domain, instead in zip(domains.each, spare, strict=True):
        each = strategy.by_name.get(domain.variable.name, instead)
        cut = _nearest_cut(domain, each.partition)
        draft.append(VariableStrategy(each.variable, _shards(domain, each, cut, loads, rng), cut))
    return draft


def _nearest_cut(domain: Domain, wanted: Partition | None) -> Partition | None:
    def distance(cut: Partition | None) -> tuple[float, bool]:
        shards, aim = cut.shards if cut else 1, wanted.shards if wanted else 1
        return abs(math.log(shards / aim)), bool(cut and wanted and cut.axis != wanted.axis)

    return min(domain.cuts, key=distance)


def _shards(
    domain: Domain, each: VariableStrategy, cut: Partition | None, loads: dict[str, float], rng: random.Random
) -> tuple[Synchronizer, ...]:
    """One synchronizer a shard of the new cut, taken from the old shard at the same place."""
    count = cut.shards if cut else 1
    part = domain.gradient_bytes / count
    group = next((shard.group for shard in each.shards if isinstance(shard, AllReduce)), 0)
    kinds = _kinds(domain, each)
    shards: list[Synchronizer] = []
    for position in range(count):
        old = each.shards[position * len(each.shards) // count]
        if kinds[position * len(each.shards) // count] == REDUCED:
            algorithm = old.algorithm if isinstance(old, AllReduce) else "ring"
            own = old.group if isinstance(old, AllReduce) else group
            shards.append(domain.reducing(own, algorithm, old.compressor, whole=cut is None))
        else:
            server = _server(domain, old, cut is None, loads, rng)
            loads[server.device] += part
            shards.append(server)
    return tuple(shards)


def _kinds(domain: Domain, each: VariableStrategy) -> list[str]:
    """The kind of each old shard once the domain has had its say."""
    kinds = [kind_of(shard) for shard in each.shards]
    if len(domain.kinds) == 1:
        return [domain.kinds[0]] * len(kinds)
    if not domain.mixed_shards:
        return [REDUCED if kinds.count(REDUCED) * 2 > len(kinds) else SERVED] * len(kinds)
    return kinds


def _server(
    domain: Domain, old: Synchronizer, whole: bool, loads: dict[str, float], rng: random.Random
) -> ParameterServer:
    if not isinstance(old, ParameterServer):
        return domain.on(lightest(domain, loads, rng), False, old.compressor, whole)
    device = old.device
    if device not in domain.devices:
        node = device.rpartition("/")[0]
        near = [each for each in domain.devices if each.rpartition("/")[0] == node]
        device = min(near, key=loads.__getitem__) if near else lightest(domain, loads, rng)
    server = domain.on(device, old.local_copy, old.compressor, whole)
    return server if server.staleness == old.staleness else replace(server, staleness=old.staleness)

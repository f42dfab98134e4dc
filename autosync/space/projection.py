"""Projects a strategy from outside a space onto the nearest strategy inside."""

import math
import random
from dataclasses import replace

from autosync.space.domain import REDUCED, SERVED, Domain, Draft, kind_of
from autosync.space.domains import Domains
from autosync.space.placement import lightest
from autosync.space.sampling import sample_draft
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy


def project(domains: Domains, strategy: Strategy, rng: random.Random) -> Draft:
    """The strategy's decisions, changed as little as the domains require.

    A cut becomes the offered cut with the nearest count of shards. A server that is not offered becomes the least
    loaded offered server, on the same node if possible. An algorithm or compressor that is not offered becomes the
    first offered one, but on servers no compressor is preferred. Variables that the strategy does not decide are
    sampled. The draft may hold too many buckets and several stalenesses; see `within_limits` and `settle_staleness`.
    """
    spare = sample_draft(domains, rng)
    loads = dict.fromkeys(domains.devices, 0.0)
    draft: Draft = []
    for domain, instead in zip(domains.each, spare, strict=True):
        decision = strategy.by_name.get(domain.variable.name, instead)
        cut = _nearest_cut(domain, decision.partition)
        draft.append(VariableStrategy(decision.variable, _shards(domain, decision, cut, loads, rng), cut))
    return draft


def _nearest_cut(domain: Domain, wanted: Partition | None) -> Partition | None:
    def distance(cut: Partition | None) -> tuple[float, bool]:
        shards, aim = cut.shards if cut else 1, wanted.shards if wanted else 1
        return abs(math.log(shards / aim)), bool(cut and wanted and cut.axis != wanted.axis)

    return min(domain.cuts, key=distance)


def _shards(
    domain: Domain, decision: VariableStrategy, cut: Partition | None, loads: dict[str, float], rng: random.Random
) -> tuple[Synchronizer, ...]:
    """A synchronizer for every shard of the new cut, taken from the old shard at the same position."""
    count = cut.shards if cut else 1
    part = domain.gradient_bytes / count
    group = next((shard.group for shard in decision.shards if isinstance(shard, AllReduce)), 0)
    kinds = _kinds(domain, decision)
    shards: list[Synchronizer] = []
    for position in range(count):
        old = decision.shards[position * len(decision.shards) // count]
        if kinds[position * len(decision.shards) // count] == REDUCED:
            algorithm = old.algorithm if isinstance(old, AllReduce) else "ring"
            kept_group = old.group if isinstance(old, AllReduce) else group
            shards.append(domain.reducing(kept_group, algorithm, old.compressor, whole=cut is None))
        else:
            server = _server(domain, old, cut is None, loads, rng)
            loads[server.device] += part
            shards.append(server)
    return tuple(shards)


def _kinds(domain: Domain, decision: VariableStrategy) -> list[str]:
    """The kind of each old shard, changed where the domain does not allow it."""
    kinds = [kind_of(shard) for shard in decision.shards]
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
        near = [name for name in domain.devices if name.rpartition("/")[0] == node]
        device = min(near, key=loads.__getitem__) if near else lightest(domain, loads, rng)
    server = domain.on(device, old.local_copy, old.compressor, whole)
    return server if server.staleness == old.staleness else replace(server, staleness=old.staleness)

"""Moves that change the servers of shards."""

import random

from autosync.space.domain import Draft
from autosync.space.domains import Domains
from autosync.space.placement import lightest, on_other, replace_server, server_loads, server_shards, spread
from autosync.spec import ParameterServer


def relieve_heaviest(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """A shard of the most loaded server moves to the least loaded server that it is allowed on."""
    loads = server_loads(domains, draft)
    served = server_shards(draft)
    if not served or len(loads) < 2:
        return None
    heaviest = max(loads, key=loads.__getitem__)
    variable, shard, server = rng.choice([entry for entry in served if entry[2].device == heaviest])
    target = lightest(domains.each[variable], loads, rng)
    return _move_to(domains, draft, (variable, shard, server), target)


def move_shard(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """One shard moves to another server that it is allowed on."""
    served = [entry for entry in server_shards(draft) if len(domains.each[entry[0]].devices) > 1]
    if not served:
        return None
    variable, shard, server = rng.choice(served)
    target = rng.choice([device for device in domains.each[variable].devices if device != server.device])
    return _move_to(domains, draft, (variable, shard, server), target)


def rebalance(domains: Domains, draft: Draft, rng: random.Random) -> Draft | None:
    """All shards on servers are placed again, balanced by bytes over some or all of the servers."""
    if len(domains.devices) < 2 or not server_shards(draft):
        return None
    return spread(domains, draft, rng, rng.choice((0.0, 0.3, 1.0)), draw_devices(domains, rng))


def draw_devices(domains: Domains, rng: random.Random) -> tuple[str, ...]:
    """Draw all server devices half of the time, else some of them; always all without the rule `server_choice`."""
    if not domains.devices or "server_choice" not in domains.knowledge or rng.random() < 0.5:
        return domains.devices
    return tuple(rng.sample(domains.devices, rng.randint(1, len(domains.devices))))


def _move_to(domains: Domains, draft: Draft, entry: tuple[int, int, ParameterServer], device: str) -> Draft:
    variable, shard, server = entry
    target = on_other(domains.each[variable], server, device)
    return [*draft[:variable], replace_server(draft[variable], shard, target), *draft[variable + 1 :]]

"""Places the shards of a draft on servers: loads, and placements balanced by bytes."""

import math
import random
from collections.abc import Sequence

from autosync.space.domain import Domain, Draft
from autosync.space.domains import Domains
from autosync.spec import Lightest, ParameterServer, VariableStrategy


def server_loads(domains: Domains, draft: Draft) -> dict[str, float]:
    """Gradient bytes that a replica sends to each server device in a step."""
    loads = dict.fromkeys(domains.devices, 0.0)
    for domain, decision in zip(domains.each, draft, strict=True):
        part = domain.gradient_bytes / len(decision.shards)
        for shard in decision.shards:
            if isinstance(shard, ParameterServer):
                loads[shard.device] = loads.get(shard.device, 0.0) + part
    return loads


def server_shards(draft: Draft) -> list[tuple[int, int, ParameterServer]]:
    """(variable, shard, server) of every shard on a parameter server."""
    return [
        (variable, index, shard)
        for variable, decision in enumerate(draft)
        if decision.servers
        for index, shard in enumerate(decision.shards)
        if isinstance(shard, ParameterServer)
    ]


def biggest(domains: Domains, rng: random.Random) -> tuple[int, ...]:
    """The k biggest variables, by index; k is drawn uniformly on a logarithmic scale."""
    count = int(len(domains.by_bytes) ** rng.random() + 0.5)
    return domains.by_bytes[: max(1, count)]


def lightest(domain: Domain, loads: dict[str, float], rng: random.Random) -> str:
    """The allowed device with the least load; a random one among equals."""
    least = min(map(loads.__getitem__, domain.devices))
    return rng.choice([device for device in domain.devices if loads[device] == least])


def on_other(domain: Domain, server: ParameterServer, device: str) -> ParameterServer:
    """`server` moved to `device`, with its local copy and compressor. The variable's cut must not have changed."""
    return domain.on(device, server.local_copy, server.compressor)


def replace_server(decision: VariableStrategy, shard: int, server: ParameterServer) -> VariableStrategy:
    """The variable's strategy with `server` for the shard of index `shard`."""
    return VariableStrategy(
        decision.variable, (*decision.shards[:shard], server, *decision.shards[shard + 1 :]), decision.partition
    )


def spread(
    domains: Domains, draft: Draft, rng: random.Random, jitter: float = 0.0, devices: Sequence[str] = ()
) -> Draft:
    """The draft with all shards on servers placed again: the biggest first, on the device with the least bytes.

    Without the rule `load_balancing`, a shard is placed on any device. `jitter` is the standard deviation of the noise
    on the logarithm of the sizes that decide the order. `devices` narrows the servers of variables that are allowed on
    at least one of them.
    """
    loads = dict.fromkeys(domains.devices, 0.0)
    wanted = frozenset(devices)
    queue = []
    for variable, shard, server in server_shards(draft):
        part = domains.each[variable].gradient_bytes / len(draft[variable].shards)
        order = -part * (math.exp(rng.gauss(0.0, jitter)) if jitter else 1.0)
        queue.append((order, variable, shard, part, server))
    queue.sort(key=lambda entry: entry[:3])
    placed: dict[int, list[tuple[int, ParameterServer]]] = {}
    allowed_of: dict[tuple[str, ...], Lightest] = {}
    balanced = "load_balancing" in domains.knowledge
    for _, variable, shard, part, server in queue:
        domain = domains.each[variable]
        allowed = allowed_of.get(domain.devices)
        if allowed is None:
            narrowed = tuple(device for device in domain.devices if device in wanted)
            allowed = allowed_of[domain.devices] = Lightest(narrowed or domain.devices, loads)
        device = allowed.first() if balanced else rng.choice(allowed.devices)
        loads[device] += part
        placed.setdefault(variable, []).append((shard, on_other(domain, server, device)))
    return [
        _with_servers(decision, placed[index]) if index in placed else decision for index, decision in enumerate(draft)
    ]


def _with_servers(decision: VariableStrategy, servers: list[tuple[int, ParameterServer]]) -> VariableStrategy:
    shards = list(decision.shards)
    for index, server in servers:
        shards[index] = server
    return VariableStrategy(decision.variable, tuple(shards), decision.partition)

"""Ways to synchronize: every synchronizer alone, in all its forms, and random mixtures."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from autosync.spec import (
    ALGORITHMS,
    PLACED_ALGORITHMS,
    AllReduce,
    Cast,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
)

__all__ = ["ALONE", "COMPRESSED", "ROUNDED", "random_mixture"]

Decide = Callable[[int, Variable], VariableStrategy]


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Decide) -> Strategy:
    """Buckets have one dtype, algorithm and compressor: each combination gets its own range of groups."""
    ranges: dict[object, int] = {}

    def grouped(variable: Variable, shard: Synchronizer) -> Synchronizer:
        if not isinstance(shard, AllReduce):
            return shard
        algorithm = "ring" if variable.sparse or shard.gathers else shard.algorithm
        kind = variable.dtype, algorithm, shard.compressor
        return replace(shard, algorithm=algorithm, group=1000 * ranges.setdefault(kind, len(ranges)) + shard.group)

    def decided(number: int, variable: Variable) -> VariableStrategy:
        wanted = decide(number, variable)
        return replace(wanted, shards=tuple(grouped(variable, shard) for shard in wanted.shards))

    replicas = tuple(str(device) for device in cluster.replica_devices)
    return Strategy(replicas, tuple(decided(number, variable) for number, variable in enumerate(model.variables)))


def _servers(cluster: ClusterSpec) -> list[str]:
    return [str(device) for device in cluster.server_devices]


def _cut(variable: Variable, axis: int, wanted: int) -> Partition | None:
    """Return a partition along `axis` (from the end if negative) as close to `wanted` shards as the rules allow."""
    if not variable.shape:
        return None
    axis = 0 if variable.sparse else axis % len(variable.shape)
    shards = min(wanted, variable.shape[axis])
    return Partition(axis, shards) if shards > 1 else None


def _each(
    synchronizer: Callable[[int], Synchronizer], axis: int = 0, shards: int = 1
) -> Callable[[ModelSpec, ClusterSpec], Strategy]:
    """Cut every variable alike; `synchronizer(v + s)` synchronizes shard s of variable v."""

    def strategy(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        servers = _servers(cluster)

        def placed(decided: Synchronizer) -> Synchronizer:
            if isinstance(decided, AllReduce):
                return decided
            return replace(decided, device=servers[int(decided.device) % len(servers)])

        def decide(number: int, variable: Variable) -> VariableStrategy:
            cut = _cut(variable, axis, shards)
            parts = (placed(synchronizer(number + index)) for index in range(cut.shards if cut else 1))
            return VariableStrategy(variable.name, tuple(parts), cut)

        return _strategy(model, cluster, decide)

    return strategy


def _server(number: int, local_copy: bool = False, cast: str | None = None) -> ParameterServer:
    """Return server `number`; `_each` turns the number into a device of the cluster."""
    return ParameterServer(str(number), local_copy, compressor=Cast(cast) if cast else None)


def _rings_with_sparse_servers(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    servers = _servers(cluster)

    def decide(number: int, variable: Variable) -> VariableStrategy:
        if not variable.sparse:
            return VariableStrategy(variable.name, (AllReduce(0),))
        return VariableStrategy(variable.name, (ParameterServer(servers[number % len(servers)]),))

    return _strategy(model, cluster, decide)


ALONE: dict[str, Callable[[ModelSpec, ClusterSpec], Strategy]] = {
    "one server": _each(lambda _: _server(1)),
    "one server, local copies": _each(lambda _: _server(0, True)),
    "servers in turn": _each(lambda n: _server(n, n % 2 == 0)),
    "servers, first axis cut": _each(_server, 0, 3),
    "servers, last axis cut": _each(lambda n: _server(n, True), -1, 2),
    "servers, first axis cut finely": _each(_server, 0, 11),
    "one ring": _each(lambda _: AllReduce(0)),
    "a ring a variable": _each(AllReduce),
    "two rings": _each(lambda n: AllReduce(n % 2)),
    "rings, first axis cut": _each(lambda n: AllReduce(n % 3), 0, 3),
    "rings, last axis cut": _each(lambda n: AllReduce(n % 2), -1, 2),
    "rings, sparse on servers": _rings_with_sparse_servers,
    "one tree": _each(lambda _: AllReduce(0, "tree")),
    "halving and doubling": _each(lambda n: AllReduce(n % 2, "halving_doubling")),
    "Rabenseifner": _each(lambda n: AllReduce(n % 2, "rabenseifner")),
    "BlueConnect": _each(lambda n: AllReduce(n % 2, "blueconnect")),
    "direct exchange": _each(lambda n: AllReduce(n % 2, "direct")),
    "fitted": _each(lambda n: AllReduce(n % 2, "fitted")),
    "hierarchies, first axis cut": _each(lambda n: AllReduce(n % 3, "hierarchical"), 0, 3),
    "one collective": _each(lambda _: AllReduce(0, "collective")),
    "a collective a variable": _each(lambda n: AllReduce(n, "collective")),
    "every algorithm": _each(lambda n: AllReduce(0, ALGORITHMS[n % len(ALGORITHMS)]), 0, 6),
    "shards of both kinds": _each(lambda n: _server(n) if n % 2 else AllReduce(n % 3), 0, 4),
}
"""Strategies that treat all variables alike. A sparse variable's all-reduce gathers rows."""

ROUNDED: dict[str, Callable[[ModelSpec, ClusterSpec], Strategy]] = {
    "bf16 servers": _each(lambda n: _server(n, cast="bf16")),
    "fp16 servers, first axis cut": _each(lambda n: _server(n, True, "fp16"), 0, 3),
    "bf16 ring": _each(lambda _: AllReduce(0, compressor=Cast("bf16"))),
    "fp16 ring": _each(lambda _: AllReduce(0, compressor=Cast("fp16"))),
    "fp16 rings, a variable each": _each(lambda n: AllReduce(n, compressor=Cast("fp16"))),
    "bf16, every algorithm": _each(lambda n: AllReduce(0, ALGORITHMS[n % len(ALGORITHMS)], Cast("bf16")), 0, 6),
    "fp16, every algorithm": _each(
        lambda n: AllReduce(0, PLACED_ALGORITHMS[n % len(PLACED_ALGORITHMS)], Cast("fp16")), 0, 5
    ),
}
"""Strategies with gradients in 16 bits, named after the type that they cast to."""

COMPRESSED: dict[str, Callable[[ModelSpec, ClusterSpec], Strategy]] = {
    "top-k, own": _each(lambda _: AllReduce(0, compressor=TopK(0.1))),
    "top-k, own, a variable each": _each(lambda n: AllReduce(n, compressor=TopK(0.03))),
    "top-k, own, servers, first axis cut": _each(lambda n: replace(_server(n), compressor=TopK(0.2)), 0, 2),
    "top-k, star, ring": _each(lambda _: AllReduce(0, compressor=TopK(0.1, "star"))),
    "top-k, star, tree": _each(lambda n: AllReduce(n % 2, "tree", TopK(0.3, "star"))),
    "top-k, star, collective": _each(lambda _: AllReduce(0, "collective", TopK(0.1, "star"))),
    "top-k, var, ring, last axis cut": _each(lambda n: AllReduce(n % 2, "ring", TopK(0.2, "var")), -1, 2),
    "top-k, var, tree": _each(lambda _: AllReduce(0, "tree", TopK(0.1, "var"))),
    "PowerSGD, ring": _each(lambda _: AllReduce(0, compressor=PowerSGD(1))),
    "PowerSGD, collective": _each(lambda n: AllReduce(n % 2, "collective", PowerSGD(1))),
    "PowerSGD, tree": _each(lambda n: AllReduce(n % 2, "tree", PowerSGD(2))),
    "PowerSGD, servers": _each(lambda n: replace(_server(n, n % 2 == 0), compressor=PowerSGD(2))),
    "PowerSGD, servers, first axis cut": _each(lambda n: replace(_server(n), compressor=PowerSGD(1)), 0, 2),
}
"""Strategies that send a part of gradients later; for models without sparse variables."""


def random_mixture(model: ModelSpec, cluster: ClusterSpec, rng: random.Random) -> Strategy:
    """A strategy with a random partition for every variable, and a random synchronizer for every shard."""
    servers = _servers(cluster)

    def synchronizer() -> Synchronizer:
        if rng.random() < 0.5:
            return ParameterServer(rng.choice(servers), rng.random() < 0.5)
        return AllReduce(rng.randrange(3), rng.choice(ALGORITHMS))

    def decide(_: int, variable: Variable) -> VariableStrategy:
        cut = _cut(variable, rng.randrange(4), rng.randint(1, 5))
        parts = tuple(synchronizer() for _ in range(cut.shards if cut else 1))
        return VariableStrategy(variable.name, parts, cut)

    return _strategy(model, cluster, decide)

"""Ways to synchronize: every synchronizer alone, in all its forms, and mixtures drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable

from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Partition,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
)

__all__ = ["ALONE", "random_mixture"]

Decide = Callable[[int, Variable], VariableStrategy]


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Decide) -> Strategy:
    replicas = tuple(str(device) for device in cluster.replica_devices)
    return Strategy(replicas, tuple(decide(number, each) for number, each in enumerate(model.variables)))


def _servers(cluster: ClusterSpec) -> list[str]:
    return [str(device) for device in cluster.server_devices]


def _cut(variable: Variable, axis: int, wanted: int) -> Partition | None:
    """A partition along `axis` (counted from the end when negative) as near to `wanted` shards as the rules allow."""
    if not variable.shape:
        return None
    axis = 0 if variable.sparse else axis % len(variable.shape)
    shards = min(wanted, variable.shape[axis])
    return Partition(axis, shards) if shards > 1 else None


def _group(variable: Variable, number: int) -> int:
    """A bucket holds one dtype: each dtype has its own range of groups."""
    return 1000 * ("float16", "bfloat16", "float32", "float64").index(variable.dtype) + number


def _each(
    synchronizer: Callable[[int], Synchronizer], axis: int = 0, shards: int = 1
) -> Callable[[ModelSpec, ClusterSpec], Strategy]:
    """Every variable cut alike; shard s of variable v is synchronized by `synchronizer(v + s)`."""

    def strategy(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        servers = _servers(cluster)

        def placed(variable: Variable, decided: Synchronizer) -> Synchronizer:
            if isinstance(decided, AllReduce):
                return AllReduce(_group(variable, decided.group))
            return ParameterServer(servers[int(decided.device) % len(servers)], decided.local_copy)

        def decide(number: int, variable: Variable) -> VariableStrategy:
            cut = _cut(variable, axis, shards)
            parts = (placed(variable, synchronizer(number + index)) for index in range(cut.shards if cut else 1))
            return VariableStrategy(variable.name, tuple(parts), cut)

        return _strategy(model, cluster, decide)

    return strategy


def _server(number: int, local_copy: bool = False) -> ParameterServer:
    """Server `number`; `_each` turns the number into a device of the cluster."""
    return ParameterServer(str(number), local_copy)


def _rings_with_sparse_servers(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    servers = _servers(cluster)

    def decide(number: int, variable: Variable) -> VariableStrategy:
        if not variable.sparse:
            return VariableStrategy(variable.name, (AllReduce(_group(variable, 0)),))
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
    "shards of both kinds": _each(lambda n: _server(n) if n % 2 else AllReduce(n % 3), 0, 4),
}
"""Strategies in which all variables are treated alike. A sparse variable's all-reduce gathers rows."""


def random_mixture(model: ModelSpec, cluster: ClusterSpec, rng: random.Random) -> Strategy:
    """For every variable a random partition, for every shard a random synchronizer."""
    servers = _servers(cluster)

    def synchronizer(variable: Variable) -> Synchronizer:
        if rng.random() < 0.5:
            return ParameterServer(rng.choice(servers), rng.random() < 0.5)
        return AllReduce(_group(variable, rng.randrange(3)))

    def decide(_: int, variable: Variable) -> VariableStrategy:
        cut = _cut(variable, rng.randrange(4), rng.randint(1, 5))
        parts = tuple(synchronizer(variable) for _ in range(cut.shards if cut else 1))
        return VariableStrategy(variable.name, parts, cut)

    return _strategy(model, cluster, decide)

"""The servers, all-reduce algorithms and compressors of a rule that a variable is offered on a cluster."""

import math
from functools import lru_cache

from autosync.layout.all_reduce import laid_out
from autosync.layout.all_reduce.collective import on_gpus
from autosync.layout.all_reduce.hierarchical import nodes_share_replicas
from autosync.space.domain import all_reduce
from autosync.space.rules import Rule
from autosync.spec import (
    DTYPE_BYTES,
    AllReduce,
    Cast,
    ClusterSpec,
    Compressor,
    ParameterServer,
    PowerSGD,
    SufficientFactors,
    TopK,
    Variable,
)


def offered_servers(rule: Rule, variable: Variable, cluster: ClusterSpec) -> tuple[ParameterServer, ...]:
    """Every device with each local copy and compressor that can make a difference; empty without servers."""
    if rule.servers is None:
        return ()
    useful = not variable.sparse and nodes_share_replicas(cluster)
    copies = tuple(dict.fromkeys(rule.servers.local_copy)) if useful else (False,)
    compressors = [each for each in _fitting(rule, variable) if _worth_pushing(each, variable)] or [None]
    return _servers(tuple(rule.servers.devices(cluster)), copies, tuple(compressors))


@lru_cache(maxsize=256)
def _servers(
    devices: tuple[str, ...], copies: tuple[bool, ...], compressors: tuple[Compressor | None, ...]
) -> tuple[ParameterServer, ...]:
    """Kept, as most variables have them in common, and there may be thousands."""
    return tuple(
        ParameterServer(device, copy, compressor=compressor)
        for device in devices
        for copy in copies
        for compressor in compressors
    )


def offered_reductions(rule: Rule, variable: Variable, cluster: ClusterSpec) -> tuple[AllReduce, ...]:
    """Every algorithm with every compressor, in group 0; compressors that gather come with `ring` alone."""
    if not rule.all_reduce:
        return ()
    compressors = [each for each in _fitting(rule, variable) if _worth_gathering(each, variable, cluster)] or [None]
    found: dict[AllReduce, None] = {}
    for compressor in compressors:
        for algorithm in _differing(rule.algorithms, rule.gpu_algorithms, cluster):
            wanted = all_reduce(0, algorithm, compressor)
            if wanted.is_collective and wanted.is_scaled:
                continue
            gathers = variable.sparse or wanted.gathers
            found[all_reduce(0, "ring", compressor) if gathers else wanted] = None
    return tuple(found)


@lru_cache(maxsize=64)
def _differing(algorithms: tuple[str, ...], gpu_algorithms: tuple[str, ...], cluster: ClusterSpec) -> tuple[str, ...]:
    """The algorithms that differ from each other on this cluster."""
    offered = (*algorithms, *(gpu_algorithms if on_gpus(cluster) else ()))
    return tuple(name for name in dict.fromkeys(offered) if laid_out(name).differs(cluster)) or ("ring",)


def _fitting(rule: Rule, variable: Variable) -> list[Compressor | None]:
    """The rule's compressors that can hold for the variable."""
    return [each for each in dict.fromkeys(rule.compressors) if each is None or _fits(each, variable)]


def _fits(compressor: Compressor, variable: Variable) -> bool:
    if DTYPE_BYTES[variable.dtype] < 4:
        return False
    if variable.sparse:
        return isinstance(compressor, Cast)
    return not isinstance(compressor, SufficientFactors) or variable.factor_rows is not None


def _worth_pushing(compressor: Compressor | None, variable: Variable) -> bool:
    """Whether a server is sent less for it; it takes top-k with each replica's own indices only."""
    if isinstance(compressor, TopK):
        return compressor.indices == "own"
    if isinstance(compressor, PowerSGD):
        return compressor.matrix(variable.shape) is not None
    return not isinstance(compressor, SufficientFactors) or _factor_elements(variable) < variable.elements


def _worth_gathering(compressor: Compressor | None, variable: Variable, cluster: ClusterSpec) -> bool:
    """Whether the busiest device sends and receives no more for it than in a ring, or with servers that it is one of.

    It is W - 1 pairs of factors each way against 2 (W - 1) / W of the gradient each way, or (W + S - 2) / S of it
    (Poseidon).
    """
    if not isinstance(compressor, SufficientFactors):
        return True
    replicas, servers = len(cluster.replica_devices), len(cluster.server_devices)
    whole = variable.elements * max(2 * (replicas - 1) / replicas, (replicas + servers - 2) / servers)
    return 0 < (replicas - 1) * _factor_elements(variable) <= whole


def _factor_elements(variable: Variable) -> float:
    return math.inf if variable.factor_rows is None else variable.factor_rows * sum(variable.shape)

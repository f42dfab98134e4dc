"""The servers, all-reduce algorithms and compressors that a rule offers to a variable on a cluster."""

import math
from functools import lru_cache

from autosync.layout.all_reduce import layout_of
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


def server_options(rule: Rule, variable: Variable, cluster: ClusterSpec) -> tuple[ParameterServer, ...]:
    """Every combination of device, local copy and compressor that can make a difference; empty without servers."""
    if rule.servers is None:
        return ()
    useful = not variable.sparse and nodes_share_replicas(cluster)
    copies = tuple(dict.fromkeys(rule.servers.local_copy)) if useful else (False,)
    compressors = [option for option in _fitting(rule, variable) if _worth_pushing(option, variable)] or [None]
    return _servers(tuple(rule.servers.devices(cluster)), copies, tuple(compressors))


@lru_cache(maxsize=256)
def _servers(
    devices: tuple[str, ...], copies: tuple[bool, ...], compressors: tuple[Compressor | None, ...]
) -> tuple[ParameterServer, ...]:
    """Servers by device, copy and compressor; cached because most variables share these, maybe thousands."""
    return tuple(
        ParameterServer(device, copy, compressor=compressor)
        for device in devices
        for copy in copies
        for compressor in compressors
    )


def reduction_options(rule: Rule, variable: Variable, cluster: ClusterSpec) -> tuple[AllReduce, ...]:
    """Every algorithm with every compressor, in group 0; compressors that gather are offered with `ring` only."""
    if not rule.all_reduce:
        return ()
    compressors = [option for option in _fitting(rule, variable) if _worth_gathering(option, variable, cluster)] or [
        None
    ]
    reductions: dict[AllReduce, None] = {}
    for compressor in compressors:
        for algorithm in _differing(rule.algorithms, rule.gpu_algorithms, cluster):
            wanted = all_reduce(0, algorithm, compressor)
            if wanted.is_collective and wanted.is_scaled:
                continue
            gathers = variable.sparse or wanted.gathers
            reductions[all_reduce(0, "ring", compressor) if gathers else wanted] = None
    return tuple(reductions)


@lru_cache(maxsize=64)
def _differing(algorithms: tuple[str, ...], gpu_algorithms: tuple[str, ...], cluster: ClusterSpec) -> tuple[str, ...]:
    """The algorithms that differ from each other on this cluster."""
    offered = (*algorithms, *(gpu_algorithms if on_gpus(cluster) else ()))
    return tuple(name for name in dict.fromkeys(offered) if layout_of(name).differs(cluster)) or ("ring",)


def _fitting(rule: Rule, variable: Variable) -> list[Compressor | None]:
    """The rule's compressors that the variable can use."""
    return [option for option in dict.fromkeys(rule.compressors) if option is None or _fits(option, variable)]


def _fits(compressor: Compressor, variable: Variable) -> bool:
    if DTYPE_BYTES[variable.dtype] < 4:
        return False
    if variable.sparse:
        return isinstance(compressor, Cast)
    return not isinstance(compressor, SufficientFactors) or variable.factor_rows is not None


def _worth_pushing(compressor: Compressor | None, variable: Variable) -> bool:
    """Whether `compressor` reduces the bytes sent to a server. Servers accept top-k with *own* indices only."""
    if isinstance(compressor, TopK):
        return compressor.indices == "own"
    if isinstance(compressor, PowerSGD):
        return compressor.matrix(variable.shape) is not None
    return not isinstance(compressor, SufficientFactors) or _factor_elements(variable) < variable.elements


def _worth_gathering(compressor: Compressor | None, variable: Variable, cluster: ClusterSpec) -> bool:
    """Whether, with `compressor`, the busiest device has no more traffic than in a ring or as one of the servers.

    With W replicas and S servers, factors take W - 1 pairs each way; a ring takes 2 (W - 1) / W of the gradient each
    way, servers (W + S - 2) / S of the gradient (Poseidon).
    """
    if not isinstance(compressor, SufficientFactors):
        return True
    replicas, servers = len(cluster.replica_devices), len(cluster.server_devices)
    whole = variable.elements * max(2 * (replicas - 1) / replicas, (replicas + servers - 2) / servers)
    return 0 < (replicas - 1) * _factor_elements(variable) <= whole


def _factor_elements(variable: Variable) -> float:
    return math.inf if variable.factor_rows is None else variable.factor_rows * sum(variable.shape)

"""Poseidon: sufficient factors between workers where they are fewer bytes, else balanced parameter servers.

Source: Zhang et al., "Poseidon: An Efficient Communication Architecture for Distributed Deep Learning on GPU Clusters",
USENIX ATC 2017, as AutoDist's `Poseidon` builder has it. With W workers and S servers, the M x N gradient of a dense
layer, the product of K rows of factors, is broadcast as factors where (the paper's equation for its best scheme)

    2 K (W - 1) (M + N) <= 2 M N (S + W - 2) / S.
"""

from __future__ import annotations

from autosync.baselines.balance import balanced_by_bytes
from autosync.baselines.decisions import strategy_of
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, SufficientFactors, Synchronizer, Variable

__all__ = ["poseidon"]


def poseidon(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Factors of each matrix worth it; all else as `balanced_parameter_server`, which this is without such matrices."""
    broadcast = [variable for variable in model.variables if _fewer_as_factors(variable, cluster)]
    served = [variable for variable in model.variables if variable not in broadcast]
    shards: dict[str, list[Synchronizer]] = {
        variable.name: [AllReduce(group, compressor=SufficientFactors())] for group, variable in enumerate(broadcast)
    }
    return strategy_of(model, cluster, shards | balanced_by_bytes(served, cluster, {}))


def _fewer_as_factors(variable: Variable, cluster: ClusterSpec) -> bool:
    workers, servers = len(cluster.replica_devices), len(cluster.server_devices)
    if variable.factor_rows is None or workers == 1:
        return False
    factors = 2 * variable.factor_rows * (workers - 1) * sum(variable.shape)
    return factors <= 2 * variable.elements * (servers + workers - 2) / servers

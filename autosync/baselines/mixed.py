"""Strategies that all-reduce some variables and keep others on servers."""

from autosync.baselines.decisions import cuts_into_parts, strategy_of, variables_in_ready_order
from autosync.baselines.reduced import FUSION_THRESHOLD_BYTES, assign_buckets, buckets_of
from autosync.baselines.served import balance_by_bytes
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    ModelSpec,
    Strategy,
    SufficientFactors,
    Synchronizer,
    Variable,
)


def parallax(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Sparse variables on the servers with the least bytes; dense variables all-reduced in buckets of at most 64 MB.

    Source: Kim et al., "Parallax: Sparsity-aware Data Parallel Training of Deep Neural Networks", EuroSys 2019, like
    AutoDist's `Parallax` builder: sparse variables stay whole and are balanced over the servers by bytes. Dense
    gradients use Horovod's 64 MB buckets, on which the paper builds; AutoDist groups 128 variables instead.
    """
    sparse = [variable for variable in model.variables if variable.sparse]
    dense = [variable for variable in variables_in_ready_order(model) if not variable.sparse]
    shards = balance_by_bytes(sparse, cluster, {}) | assign_buckets(dense, buckets_of(FUSION_THRESHOLD_BYTES))
    return strategy_of(model, cluster, shards)


def poseidon(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Sufficient factors for each matrix with which they save bytes; other variables as in `balanced_parameter_server`.

    Source: Zhang et al., "Poseidon: An Efficient Communication Architecture for Distributed Deep Learning on GPU
    Clusters", USENIX ATC 2017, like AutoDist's `Poseidon` builder. With W workers and S servers, the M x N gradient of
    a dense layer, the product of K rows of factors, is broadcast as factors if (the paper's equation for its best
    scheme)

        2 K (W - 1) (M + N) <= 2 M N (S + W - 2) / S.
    """
    broadcast = [variable for variable in model.variables if _fewer_as_factors(variable, cluster)]
    served = [variable for variable in model.variables if variable not in broadcast]
    shards: dict[str, list[Synchronizer]] = {
        variable.name: [AllReduce(group, compressor=SufficientFactors())] for group, variable in enumerate(broadcast)
    }
    return strategy_of(model, cluster, shards | balance_by_bytes(served, cluster, {}))


def _fewer_as_factors(variable: Variable, cluster: ClusterSpec) -> bool:
    workers, servers = len(cluster.replica_devices), len(cluster.server_devices)
    if variable.factor_rows is None or workers == 1:
        return False
    factors = 2 * variable.factor_rows * (workers - 1) * sum(variable.shape)
    return factors <= 2 * variable.elements * (servers + workers - 2) / servers


PART_BYTES = 4_096_000


def byteps(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable in parts of about 4 MB, in ready order, each on the server with the least bytes.

    Source: Jiang et al., "A Unified Architecture for Accelerating Distributed DNN Training in Heterogeneous GPU/CPU
    Clusters", OSDI 2020: tensors are cut into parts of `BYTEPS_PARTITION_BYTES` = 4 096 000 bytes, spread over all
    servers, and sent to each machine once. The original cuts the flat tensor and hashes parts to servers; here parts
    are whole rows (of the longest axis if axis 0 is too short) and go to the server with the least bytes. The copy that
    a machine keeps for its replicas is a local copy.
    """
    cuts = cuts_into_parts(model.variables, PART_BYTES)
    ordered = variables_in_ready_order(model)
    shards = balance_by_bytes(ordered, cluster, cuts, local_copy=_nodes_share_copies(cluster))
    return strategy_of(model, cluster, shards, cuts)


def _nodes_share_copies(cluster: ClusterSpec) -> bool:
    """Whether the cluster has several nodes, and a node with several replicas that can share a local copy."""
    nodes = [device.node for device in cluster.replica_devices]
    return len(cluster.nodes) > 1 and len(set(nodes)) < len(nodes)

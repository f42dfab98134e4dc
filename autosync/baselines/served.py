"""Strategies that keep all variables on parameter servers, and the greedy placement that most of them use."""

from collections.abc import Iterable

from autosync.baselines.decisions import MIN_SHARD_BYTES, Cuts, cuts_by_servers, equal_shards, shard_bytes, strategy_of
from autosync.spec import ClusterSpec, Lightest, ModelSpec, ParameterServer, Partition, Strategy, Synchronizer, Variable


def balance_by_bytes(
    variables: Iterable[Variable], cluster: ClusterSpec, cuts: Cuts, local_copy: bool = False
) -> dict[str, list[Synchronizer]]:
    """Place every shard of `variables`, in order, on the server with the least bytes; the first server wins a tie.

    A sparse variable also counts with all its bytes. Sparse variables never get a local copy.
    """
    loads = {str(device): 0 for device in cluster.server_devices}
    lightest = Lightest(list(loads), loads)
    placed: dict[str, list[Synchronizer]] = {}
    for variable in variables:
        placed[variable.name] = []
        for size in shard_bytes(variable, cuts.get(variable.name)):
            device = lightest.first()
            loads[device] += size
            placed[variable.name].append(ParameterServer(device, local_copy and not variable.sparse))
    return placed


def parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable whole on the cluster's first server.

    This is AutoDist's `PS` builder, after Li et al., "Scaling Distributed Machine Learning with the Parameter Server",
    OSDI 2014.
    """
    first = ParameterServer(str(cluster.server_devices[0]))
    return strategy_of(model, cluster, {variable.name: [first] for variable in model.variables})


def balanced_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Place each variable, in graph order, on the server that holds the least bytes so far.

    This is AutoDist's `PSLoadBalancing` builder, its default, and the rule of TensorFlow's
    `GreedyLoadBalancingStrategy`.
    """
    return strategy_of(model, cluster, balance_by_bytes(model.variables, cluster, {}))


def partitioned_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Big variables cut along axis 0 by servers; each shard, in graph order, on the server with the least bytes.

    This is AutoDist's `PartitionedPS` builder, with another count of shards. The original cuts axis 0 into its smallest
    divisor of at least 2, for any size: 30 522 rows into 2 shards for any number of servers, and a prime 138 493 rows
    into 138 493. Here a variable is cut into one shard per server, uneven if necessary, if shards are worth a message.
    """
    cuts = cuts_by_servers(model.variables, cluster)
    return strategy_of(model, cluster, balance_by_bytes(model.variables, cluster, cuts), cuts)


def uneven_parameter_server(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Big variables cut unevenly along axis 0; each shard, in graph order, on the server with the least bytes.

    This is AutoDist's `UnevenPartitionedPS` builder: the smallest count of at least 2 that does not divide axis 0. The
    original cuts every variable, without a bound on the count. Here the count is at most twice the number of servers
    (otherwise, one shard per server), and only variables whose shards are large enough are cut.
    """
    counts = {
        variable.name: _smallest_nondivisor(variable, len(cluster.server_devices)) for variable in model.variables
    }
    cuts = {name: Partition(0, count) for name, count in counts.items() if count > 1}
    return strategy_of(model, cluster, balance_by_bytes(model.variables, cluster, cuts), cuts)


def _smallest_nondivisor(variable: Variable, servers: int) -> int:
    rows = variable.shape[0] if variable.shape else 1
    most = min(2 * servers, rows, variable.bytes // MIN_SHARD_BYTES)
    return next((count for count in range(2, most + 1) if rows % count), equal_shards(variable, servers))

"""A strategy file: AutoDist's message, turned into a `Strategy` that makes the same decisions."""

from pathlib import Path
from typing import Any, final

from autosync.dataset.autosync_import.messages import parsed, read_bytes
from autosync.dataset.autosync_import.resources import Resources
from autosync.errors import DatasetError
from autosync.spec import (
    AllReduce,
    Compressor,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    Synchronizer,
    Variable,
    VariableStrategy,
    check_strategy,
    quoted,
)

NONE, HOROVOD, HOROVOD_WITH_FEEDBACK, POWER_SGD = range(4)


def read_strategy(file: Path, model: ModelSpec, resources: Resources) -> Strategy:
    """The strategy in `file` for `model`. What it decides for other variables is left out, as AutoDist does.

    Raises `DatasetError` when it cannot be read or has no counterpart here, and `SpecError` when it breaks a rule.
    """
    message = parsed(read_bytes(file), "Strategy", file)
    reader = _Reader(resources)
    replicas = {resources.device(name) for name in message.graph_config.replicas}
    variables = []
    for node in message.node_config:
        variable = model.by_name.get(node.var_name.partition(":")[0])
        if variable is not None:
            variables.append(reader.variable(node, variable))
    strategy = Strategy(
        # AutoDist sorts them, so their order is no decision.
        replicas=tuple(str(each) for each in resources.cluster.replica_devices if str(each) in replicas),
        variables=tuple(variables),
    ).with_groups_renumbered()
    check_strategy(strategy, model, resources.cluster)
    return strategy


@final
class _Reader:
    """Reads the nodes of one strategy. Groups are split by what a bucket of ours cannot mix."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._groups: dict[tuple[object, ...], int] = {}

    def variable(self, node: Any, variable: Variable) -> VariableStrategy:
        partition = _partition(node.partitioner, variable)
        parts = list(node.part_config) or [node] * (partition.shards if partition else 1)
        if partition is None:
            parts = [node]
        return VariableStrategy(variable.name, tuple(self._shard(part, variable) for part in parts), partition)

    def _shard(self, node: Any, variable: Variable) -> Synchronizer:
        kind = node.WhichOneof("synchronizer")
        if kind == "PSSynchronizer":
            return self._server(node.PSSynchronizer, variable)
        if kind == "AllReduceSynchronizer":
            return self._all_reduce(node.AllReduceSynchronizer, variable)
        raise DatasetError(f"Variable {quoted(variable.name)} has no synchronizer, so replicas would drift apart.")

    def _server(self, server: Any, variable: Variable) -> ParameterServer:
        if not server.sync:
            raise DatasetError(
                f"Variable {quoted(variable.name)} is updated asynchronously without bound, which is not here."
            )
        if not server.reduction_destination:
            raise DatasetError(f"Variable {quoted(variable.name)} is on a parameter server that is not named.")
        device = self._resources.device(server.reduction_destination)
        # AutoDist makes no local copies of variables with sparse gradients, whatever is asked.
        return ParameterServer(device, server.local_replication and not variable.sparse, server.staleness)

    def _all_reduce(self, reduce: Any, variable: Variable) -> AllReduce:
        compressor = _compressor(reduce.compressor, variable)
        # A sparse gradient is gathered by itself there; dense ones are fused by group and type.
        key: tuple[object, ...] = (
            (variable.name, len(self._groups)) if variable.sparse else (reduce.group, variable.dtype)
        )
        group = self._groups.setdefault((*key, compressor), len(self._groups))
        return AllReduce(group, compressor=compressor)


def _partition(partitioner: str, variable: Variable) -> Partition | None:
    """The cut that a text such as '1,2,1' stands for; None for no text."""
    if not partitioner:
        return None
    try:
        counts = [int(each) for each in partitioner.split(",")]
    except ValueError:
        counts = []
    cut = [axis for axis, count in enumerate(counts) if count > 1]
    if len(cut) != 1:
        raise DatasetError(
            f"Variable {quoted(variable.name)} has partitioner {quoted(partitioner)}; exactly one of its numbers "
            "must be above 1."
        )
    return Partition(cut[0], counts[cut[0]])


def _compressor(number: int, variable: Variable) -> Compressor | None:
    if number in (NONE, HOROVOD, HOROVOD_WITH_FEEDBACK):  # Horovod's cast to float32, which left gradients as they were
        return None
    if number != POWER_SGD:
        raise DatasetError(f"Variable {quoted(variable.name)} has compressor number {number}; known are 0 to 3.")
    return None if variable.sparse else PowerSGD(1)

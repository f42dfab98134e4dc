"""A strategy file: turns AutoDist's message into a `Strategy` with the same decisions."""

from pathlib import Path
from typing import Any, final

from autosync.dataset.autosync_import.messages import parse_message, read_bytes
from autosync.dataset.autosync_import.resources import ResourceSpec
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
    quote,
)

NONE, HOROVOD, HOROVOD_WITH_FEEDBACK, POWER_SGD = range(4)


def read_strategy(file: Path, model: ModelSpec, resources: ResourceSpec) -> Strategy:
    """Return the strategy in `file` for `model`. Decisions about other variables are ignored, as in AutoDist.

    Raises `DatasetError` if the file cannot be read or the strategy has no counterpart here, and `SpecError` if the
    strategy breaks a rule.
    """
    message = parse_message(read_bytes(file), "Strategy", file)
    reader = _Reader(resources)
    replicas = {resources.device(name) for name in message.graph_config.replicas}
    variables = []
    for node in message.node_config:
        variable = model.by_name.get(node.var_name.partition(":")[0])
        if variable is not None:
            variables.append(reader.variable(node, variable))
    strategy = Strategy(
        # AutoDist sorts replicas, so their order is not a decision.
        replicas=tuple(str(device) for device in resources.cluster.replica_devices if str(device) in replicas),
        variables=tuple(variables),
    ).with_groups_renumbered()
    check_strategy(strategy, model, resources.cluster)
    return strategy


@final
class _Reader:
    """Reads the nodes of one strategy. Groups are split by properties that a bucket cannot mix here."""

    def __init__(self, resources: ResourceSpec) -> None:
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
        raise DatasetError(f"Variable {quote(variable.name)} must have a synchronizer, or replicas would drift apart.")

    def _server(self, server: Any, variable: Variable) -> ParameterServer:
        if not server.sync:
            raise DatasetError(
                f"Variable {quote(variable.name)} is updated asynchronously without bound, which is not supported."
            )
        if not server.reduction_destination:
            raise DatasetError(f"Variable {quote(variable.name)} is on a parameter server without a name.")
        device = self._resources.device(server.reduction_destination)
        # AutoDist never makes local copies of variables with sparse gradients, even if the strategy requests them.
        return ParameterServer(device, server.local_replication and not variable.sparse, server.staleness)

    def _all_reduce(self, reduce: Any, variable: Variable) -> AllReduce:
        compressor = _compressor(reduce.compressor, variable)
        # AutoDist gathers each sparse gradient separately, and fuses dense gradients by group and type.
        key: tuple[object, ...] = (
            (variable.name, len(self._groups)) if variable.sparse else (reduce.group, variable.dtype)
        )
        group = self._groups.setdefault((*key, compressor), len(self._groups))
        return AllReduce(group, compressor=compressor)


def _partition(partitioner: str, variable: Variable) -> Partition | None:
    """Return the cut that a text such as '1,2,1' describes; None for an empty text."""
    if not partitioner:
        return None
    try:
        counts = [int(number) for number in partitioner.split(",")]
    except ValueError:
        counts = []
    cut = [axis for axis, count in enumerate(counts) if count > 1]
    if len(cut) != 1:
        raise DatasetError(
            f"Variable {quote(variable.name)} has partitioner {quote(partitioner)}; exactly one of its numbers "
            "must be above 1."
        )
    return Partition(cut[0], counts[cut[0]])


def _compressor(number: int, variable: Variable) -> Compressor | None:
    if number in (NONE, HOROVOD, HOROVOD_WITH_FEEDBACK):  # Horovod's cast to float32 did not change gradients
        return None
    if number != POWER_SGD:
        raise DatasetError(f"Variable {quote(variable.name)} has compressor number {number}; known are 0 to 3.")
    return None if variable.sparse else PowerSGD(1)

"""The nouns of autosync: frozen, validated, standard library only."""

from autosync.spec.cluster import ClusterSpec, Device, Figure, Link, Node
from autosync.spec.codec import canonical_json, digest, parse_json
from autosync.spec.model import DTYPE_BYTES, ModelSpec, Operator, Variable
from autosync.spec.record import RuntimeRecord, TimingProtocol
from autosync.spec.strategy import (
    AllReduce,
    ParameterServer,
    Partition,
    Strategy,
    Synchronizer,
    VariableStrategy,
    shard_sizes,
)
from autosync.spec.symmetry import canonical_strategy
from autosync.spec.validate import check_strategy, strategy_faults

__all__ = [
    "DTYPE_BYTES",
    "AllReduce",
    "ClusterSpec",
    "Device",
    "Figure",
    "Link",
    "ModelSpec",
    "Node",
    "Operator",
    "ParameterServer",
    "Partition",
    "RuntimeRecord",
    "Strategy",
    "Synchronizer",
    "TimingProtocol",
    "Variable",
    "VariableStrategy",
    "canonical_json",
    "canonical_strategy",
    "check_strategy",
    "digest",
    "parse_json",
    "shard_sizes",
    "strategy_faults",
]

"""The nouns of autosync: frozen, validated, standard library only."""

from autosync.spec.cluster import ClusterSpec, Device, Figure, Link, Node, SharedCores
from autosync.spec.codec import canonical_json, digest, parse_json
from autosync.spec.compressor import Cast, Compressor, PowerSGD, SufficientFactors, TopK
from autosync.spec.median import median_interval
from autosync.spec.model import DTYPE_BYTES, ModelSpec, Operator, Variable
from autosync.spec.parcel import is_summed_as_it_is, parcels, piece_sizes
from autosync.spec.profile import ModelProfile
from autosync.spec.record import RuntimeRecord, TimingProtocol
from autosync.spec.strategy import Partition, Strategy, VariableStrategy, shard_sizes
from autosync.spec.symmetry import canonical_strategy
from autosync.spec.synchronizer import (
    ALGORITHMS,
    PLACED_ALGORITHMS,
    AllReduce,
    ParameterServer,
    Synchronizer,
)
from autosync.spec.validate import check_strategy, strategy_faults

__all__ = [
    "ALGORITHMS",
    "DTYPE_BYTES",
    "PLACED_ALGORITHMS",
    "AllReduce",
    "Cast",
    "ClusterSpec",
    "Compressor",
    "Device",
    "Figure",
    "Link",
    "ModelProfile",
    "ModelSpec",
    "Node",
    "Operator",
    "ParameterServer",
    "Partition",
    "PowerSGD",
    "RuntimeRecord",
    "SharedCores",
    "Strategy",
    "SufficientFactors",
    "Synchronizer",
    "TimingProtocol",
    "TopK",
    "Variable",
    "VariableStrategy",
    "canonical_json",
    "canonical_strategy",
    "check_strategy",
    "digest",
    "is_summed_as_it_is",
    "median_interval",
    "parcels",
    "parse_json",
    "piece_sizes",
    "shard_sizes",
    "strategy_faults",
]

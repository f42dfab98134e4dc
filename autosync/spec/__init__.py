"""The nouns of autosync: frozen, validated, standard library only."""

from autosync.spec.algorithms import ALGORITHMS, GPU_ALGORITHMS, PLACED_ALGORITHMS
from autosync.spec.cluster import ClusterSpec, LaterRate, Link
from autosync.spec.codec import canonical_json, digest
from autosync.spec.compressor import Cast, Compressor, PowerSGD, SufficientFactors, TopK
from autosync.spec.ddp import DDPSettings
from autosync.spec.discipline import (
    PLAIN,
    BlockMomentum,
    CutOff,
    Discipline,
    Elastic,
    Loads,
    Rhythm,
)
from autosync.spec.fidelity import Fidelity, Probed, TopKTransport
from autosync.spec.least_loaded import Lightest
from autosync.spec.median import median_interval
from autosync.spec.model import DTYPE_BYTES, ModelSpec, Operator, Variable
from autosync.spec.node import MOST_DEVICES, MOST_NODES, Device, Figure, Node, SharedCores
from autosync.spec.pace import Pace, Slow, Spread
from autosync.spec.pace_report import KeptPace
from autosync.spec.profile import DeviceProfile, KeptProfile, ModelProfile, VariableUse, read_device_profile
from autosync.spec.quoting import cut, quote, said, shorten_list
from autosync.spec.reading import STATE, ReadLimits, parse_json, read_bytes, read_json
from autosync.spec.record import RuntimeRecord, TimingProtocol
from autosync.spec.step import Decision, StepReport
from autosync.spec.strategy import MOST_SHARDS, Partition, Strategy, VariableStrategy, shard_sizes, uncut
from autosync.spec.symmetry import canonical_strategy
from autosync.spec.synchronizer import AllReduce, ParameterServer, Synchronizer
from autosync.spec.target import CurvePoint, Decided, Target, TargetRecord
from autosync.spec.validate import check_step_time_ranks, check_strategy, step_time_fault, strategy_faults

__all__ = [
    "ALGORITHMS",
    "DTYPE_BYTES",
    "GPU_ALGORITHMS",
    "MOST_DEVICES",
    "MOST_NODES",
    "MOST_SHARDS",
    "PLACED_ALGORITHMS",
    "PLAIN",
    "STATE",
    "AllReduce",
    "BlockMomentum",
    "Cast",
    "ClusterSpec",
    "Compressor",
    "CurvePoint",
    "CutOff",
    "DDPSettings",
    "Decided",
    "Decision",
    "Device",
    "DeviceProfile",
    "Discipline",
    "Elastic",
    "Fidelity",
    "Figure",
    "KeptPace",
    "KeptProfile",
    "LaterRate",
    "Lightest",
    "Link",
    "Loads",
    "ModelProfile",
    "ModelSpec",
    "Node",
    "Operator",
    "Pace",
    "ParameterServer",
    "Partition",
    "PowerSGD",
    "Probed",
    "ReadLimits",
    "Rhythm",
    "RuntimeRecord",
    "SharedCores",
    "Slow",
    "Spread",
    "StepReport",
    "Strategy",
    "SufficientFactors",
    "Synchronizer",
    "Target",
    "TargetRecord",
    "TimingProtocol",
    "TopK",
    "TopKTransport",
    "Variable",
    "VariableStrategy",
    "VariableUse",
    "canonical_json",
    "canonical_strategy",
    "check_step_time_ranks",
    "check_strategy",
    "cut",
    "digest",
    "median_interval",
    "parse_json",
    "quote",
    "read_bytes",
    "read_device_profile",
    "read_json",
    "said",
    "shard_sizes",
    "shorten_list",
    "step_time_fault",
    "strategy_faults",
    "uncut",
]

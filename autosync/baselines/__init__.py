"""Baselines: strategies written by hand, from which a search starts and which it must beat.

Two builders of AutoDist are left out: RandomAxisPartitionAR, because a random choice is no yardstick and the space cuts
every axis, and MultinomialBytePS, because on equal links its weights by bandwidth equal `byteps`. All baselines are
lossless. Compression to 16 bits, as in Horovod, changes the numbers of training, so it is no yardstick for lossless
strategies.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autosync.baselines.ddp import DDP_BASELINES
from autosync.baselines.decisions import Baseline, different_strategies
from autosync.baselines.mixed import byteps, parallax, poseidon
from autosync.baselines.priority import PRIORITY_BASELINES
from autosync.baselines.reduced import (
    all_reduce_25mb,
    all_reduce_64mb,
    all_reduce_per_variable,
    partitioned_all_reduce,
)
from autosync.baselines.served import (
    balanced_parameter_server,
    parameter_server,
    partitioned_parameter_server,
    uneven_parameter_server,
)

__all__ = [
    "BASELINES",
    "DDP_BASELINES",
    "FRAMEWORK_DEFAULTS",
    "PRIORITY_BASELINES",
    "Baseline",
    "baselines_for",
    "different_strategies",
    "is_default",
]

BASELINES: Mapping[str, Baseline] = MappingProxyType(
    {
        "parameter_server": parameter_server,
        "balanced_parameter_server": balanced_parameter_server,
        "partitioned_parameter_server": partitioned_parameter_server,
        "uneven_parameter_server": uneven_parameter_server,
        "all_reduce_25mb": all_reduce_25mb,
        "all_reduce_64mb": all_reduce_64mb,
        "all_reduce_per_variable": all_reduce_per_variable,
        "partitioned_all_reduce": partitioned_all_reduce,
        "parallax": parallax,
        "byteps": byteps,
        "poseidon": poseidon,
    }
)
"""Every baseline by name: parameter servers, all-reduce, and mixtures, in the order of tables."""

FRAMEWORK_DEFAULTS = MappingProxyType(
    {
        "ddp": "PyTorch's DistributedDataParallel itself, with its default settings",
        "all_reduce_25mb": "PyTorch's 25 MB buckets on autosync's own ring",
        "all_reduce_64mb": "Horovod's 64 MB buckets on autosync's own ring",
    }
)
"""Baselines with the defaults of a framework, and these defaults in words.

On autosync's own ring, only the bucket sizes are the framework's.
"""


def is_default(label: str, framework: str | None) -> bool:
    """Whether the baseline `label` counts as the default of the engine `framework`.

    On PyTorch that is DistributedDataParallel itself. TensorFlow's engine cannot carry out the framework's own
    all-reduce on CPUs, so the default bucket sizes stand for it.
    """
    return label == "ddp" if framework == "pytorch" else label in FRAMEWORK_DEFAULTS


def baselines_for(framework: str) -> Mapping[str, Baseline]:
    """The baselines that the engine `framework`, or the framework itself, can carry out on CPUs.

    Steps that overlap with the next forward pass also need a model that the engine does so with; see `Engine.refusals`.
    """
    if framework != "pytorch":
        return BASELINES
    first = dict(list(DDP_BASELINES.items())[:1])  # a short search reaches the first baselines only
    return {**first, **BASELINES, **PRIORITY_BASELINES, **DDP_BASELINES}

"""Baselines: strategies written by hand, where a search starts and what it must beat.

Two of the original's builders are left out: RandomAxisPartitionAR (a random choice is no yardstick; the space cuts
every axis) and MultinomialBytePS (its weights by bandwidth come to `byteps` on equal links). All of these lose nothing:
what Horovod or others compress to 16 bits changes the numbers that training follows, and is no yardstick for the rest.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autosync.baselines.decisions import Baseline, different_strategies
from autosync.baselines.mixed import byteps, parallax, poseidon
from autosync.baselines.reduced import all_reduce_25mb, all_reduce_64mb, all_reduce_per_variable, partitioned_all_reduce
from autosync.baselines.served import (
    balanced_parameter_server,
    parameter_server,
    partitioned_parameter_server,
    uneven_parameter_server,
)

__all__ = ["BASELINES", "FRAMEWORK_DEFAULTS", "Baseline", "different_strategies"]

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
"""Every baseline by name: parameter servers, all-reduce, and mixtures. The order is that of tables."""

FRAMEWORK_DEFAULTS = MappingProxyType({"all_reduce_25mb": "PyTorch's 25 MB", "all_reduce_64mb": "Horovod's 64 MB"})
"""Baselines with the default bucket size of a framework, and that size in words.

Only the sizes are the framework's. The buckets go by autosync's own ring, and PyTorch's DistributedDataParallel itself
can be a few per cent faster.
"""

"""Strategies of communication schedulers, whose messages travel under the next forward pass in the order of its reads.

All other baselines end a step with a barrier, as the systems do that they come from.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from autosync.baselines.decisions import Baseline, cuts_into_parts, strategy_of, variables_in_ready_order
from autosync.baselines.reduced import assign_buckets, buckets_of
from autosync.baselines.served import balance_by_bytes
from autosync.spec import DTYPE_BYTES, ClusterSpec, ModelSpec, Strategy

PARTITION_ELEMENTS = 1_000_000
"""ByteScheduler's default partition, 4 MB of float32: `BYTESCHEDULER_PARTITION` in `bytescheduler/common/bytecore.py`
of bytedance/byteps."""

SLICE_ELEMENTS = 50_000
"""The elements of a slice in P3."""


def bytescheduler(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable all-reduced by itself, in parts of a million elements; first those that are read first.

    Source: Peng et al., "A Generic Communication Scheduler for Distributed DNN Training Acceleration" (ByteScheduler),
    SOSP 2019: tensors are partitioned, partitions wait in a priority queue by layer, and the next iteration's forward
    pass waits for single layers. This is the paper's all-reduce, with the code's default partition size, which the
    paper tunes. A credit (4 partitions) limits the unfinished partitions there, so that urgent ones overtake; here the
    engine sends urgent messages first. The original cuts the flat tensor; here parts are whole rows. Sparse variables
    stay whole.
    """
    dense = [variable for variable in model.variables if not variable.sparse]
    cuts = cuts_into_parts(dense, PARTITION_ELEMENTS * DTYPE_BYTES["float32"])
    reduced = assign_buckets(variables_in_ready_order(model), buckets_of(0), cuts)
    return replace(strategy_of(model, cluster, reduced, cuts), overlap_next_forward=True)


def p3(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """Every variable on servers, in slices of 50 000 elements over all servers; first those that are read first.

    Source: Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training" (P3), MLSys 2019:
    parameters are sliced, slices are spread over all servers, and a slice's priority in both directions is the order of
    its layer in the forward pass. The original slices the flat tensor; here slices are whole rows, and each goes to the
    server with the least bytes. Sparse variables stay whole. Slices of one server travel as one parcel up to 256 KB.
    """
    dense = [variable for variable in model.variables if not variable.sparse]
    cuts = cuts_into_parts(dense, SLICE_ELEMENTS * DTYPE_BYTES["float32"])
    served = balance_by_bytes(model.variables, cluster, cuts)
    return replace(strategy_of(model, cluster, served, cuts), overlap_next_forward=True)


PRIORITY_BASELINES: Mapping[str, Baseline] = MappingProxyType({"bytescheduler": bytescheduler, "p3": p3})
"""The baselines whose steps overlap with the next forward pass, by name."""

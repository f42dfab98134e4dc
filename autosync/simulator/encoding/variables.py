"""Inputs of each variable: its size, its synchronization, the variables it shares a bucket or server with, and its
replay.

A variable's inputs are byte-weighted means over its shards. Notation: v variables, s shards.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.figures import StepFigures
from autosync.numeric import FloatArray
from autosync.simulator.encoding.places import ClusterShape
from autosync.simulator.encoding.shards import WAYS, ShardColumns

OWN = ("log_bytes_over_mean", "bytes_share", "sparse", "log_touched_share", "ready_fraction")
DECIDED = (
    "log_shards",
    *(f"{way}_share" for way in WAYS),
    "log_coded_ratio",
    "log_staleness",
    "log_bucket_over_own_bytes",
    "bucket_bytes_share",
    "bucket_delay",
    "log_server_bytes_over_mean",
    "servers_share",
)
TOPOLOGY_VARIABLE_INPUTS = ("log_server_rate", "log_server_cores")
REPLAY_VARIABLE_INPUTS = (
    "ready_share",
    "first_sent_share",
    "arrived_share",
    "slack_share",
    "wait_share",
    "travel_share",
    "server_utilization",
    "server_cores_utilization",
    "server_links_utilization",
)
VARIABLE_INPUTS = (*OWN, *DECIDED, *TOPOLOGY_VARIABLE_INPUTS, *REPLAY_VARIABLE_INPUTS)


@dataclass(frozen=True, eq=False)
class VariableWeights:
    """Sizes and readiness of a model's variables, (v,) each."""

    gradient_bytes: FloatArray
    """Bytes of a replica's gradient."""
    sparse: FloatArray
    """1 for a sparse gradient, else 0."""
    touched_share: FloatArray
    """The share of the variable that a gradient touches."""
    ready: FloatArray
    """The fraction of the backward pass after which the gradient is ready."""

    def columns(self) -> FloatArray:
        """Return the inputs `OWN`, (v, 5)."""
        mean = self.gradient_bytes.mean()
        columns = (
            np.log(self.gradient_bytes / mean),
            self.gradient_bytes / self.gradient_bytes.sum(),
            self.sparse,
            np.log(self.touched_share),
            self.ready,
        )
        return np.stack(columns, axis=1)


def variable_inputs(
    weights: VariableWeights, shards: ShardColumns, shape: ClusterShape, figures: StepFigures | None
) -> FloatArray:
    """Return float64 (v, inputs) in the model's order; the replay's inputs are 0 without `figures`."""
    own_columns = weights.columns()
    table = np.zeros((len(own_columns), len(VARIABLE_INPUTS)))
    decided = _decision_inputs(weights, shards, shape)
    table[:, : len(OWN)] = own_columns
    table[:, len(OWN) : len(OWN) + decided.shape[1]] = decided
    if figures is not None:
        table[:, -len(REPLAY_VARIABLE_INPUTS) :] = _replay_inputs(len(own_columns), shards, shape, figures)
    return table


def _decision_inputs(weights: VariableWeights, shards: ShardColumns, shape: ClusterShape) -> FloatArray:
    """Return the inputs `DECIDED`, then those of topology."""
    count, place = len(weights.ready), shards.variable
    own_bytes = shards.gradient_bytes
    total = own_bytes.sum()
    share = own_bytes / np.bincount(place, own_bytes, count)[place]
    ways = np.bincount(place * len(WAYS) + shards.way, share, count * len(WAYS)).reshape(count, len(WAYS))
    in_bucket, on_server = shards.bucket >= 0, shards.server >= 0
    bucket_bytes = np.bincount(shards.bucket[in_bucket], own_bytes[in_bucket], shards.buckets)
    bucket_ready = np.zeros(shards.buckets)
    np.maximum.at(bucket_ready, shards.bucket[in_bucket], weights.ready[place[in_bucket]])
    of_bucket = np.zeros((len(place), 3))
    joined = bucket_bytes[shards.bucket[in_bucket]]
    of_bucket[in_bucket, 0] = np.log(joined / own_bytes[in_bucket])
    of_bucket[in_bucket, 1] = joined / total
    of_bucket[in_bucket, 2] = bucket_ready[shards.bucket[in_bucket]] - weights.ready[place[in_bucket]]
    of_server, server = np.zeros((len(place), 3)), shards.server[on_server]
    server_bytes = np.bincount(server, own_bytes[on_server], shape.servers)
    node = shape.node_of_server[server]
    of_server[on_server, 0] = np.log1p(server_bytes[server] * shape.servers / total)
    of_server[on_server, 1], of_server[on_server, 2] = shape.log_rate[node], shape.log_cores[node]
    used = np.zeros((count, shape.servers), dtype=np.bool_)
    used[place[on_server], server] = True
    return np.column_stack(
        [
            np.log(np.bincount(place, minlength=count)),
            ways,
            _mean(share * shards.log_coded_ratio, place, count),
            _mean(share * np.log1p(shards.staleness), place, count),
            *(_mean(share * column, place, count) for column in of_bucket.T),
            _mean(share * of_server[:, 0], place, count),
            used.mean(axis=1),
            _mean(share * of_server[:, 1], place, count),
            _mean(share * of_server[:, 2], place, count),
        ]
    )


def _mean(weighted: FloatArray, place: npt.NDArray[np.intp], count: int) -> FloatArray:
    return np.asarray(np.bincount(place, weighted, count))


def _replay_inputs(count: int, shards: ShardColumns, shape: ClusterShape, figures: StepFigures) -> FloatArray:
    """Return the inputs `REPLAY_VARIABLE_INPUTS`, as shares of the step."""
    times_of, step = figures.variables, figures.step_seconds
    times = [times_of.ready, times_of.first_sent, times_of.arrived, times_of.slack]
    times += [
        np.maximum(times_of.first_sent - times_of.ready, 0.0),
        np.maximum(times_of.arrived - times_of.first_sent, 0.0),
    ]
    resources, on_server = shape.resources, shards.server >= 0
    place, server = shards.variable[on_server], shards.server[on_server]
    variable_bytes = np.bincount(shards.variable, shards.gradient_bytes, count)
    share = shards.gradient_bytes[on_server] / variable_bytes[place]
    busy, node = figures.utilization, shape.node_of_server[server]
    at_node = np.where(shape.attached, busy[resources.links], 0.0).max(axis=1)
    of_server = (busy[resources.servers][server], busy[resources.nodes][node], at_node[node])
    return np.column_stack(
        [*(seconds / step for seconds in times), *(_mean(share * b, place, count) for b in of_server)]
    )

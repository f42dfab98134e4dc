"""Inputs of a whole strategy, pooled: the closed form's features, the cluster's shape, the replay's figures.

Every column is a share, or a logarithm of a ratio or of a count, so that a table from one model and cluster applies to
others. No column depends on names or on the numbering of devices and groups. The times in the features are the closed
form's (`step_terms`), with the coefficients passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from autosync.cost.closed_form.loads import ChannelTotals, ColumnLoads, loads_by_replicas
from autosync.cost.closed_form.step_time import StepTerms, step_seconds, step_terms
from autosync.cost.closed_form.tables import PHASES
from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.cost.replay.figures import StepFigures
from autosync.layout.exchange import Quantities
from autosync.numeric import FloatArray
from autosync.simulator.encoding.places import ClusterShape
from autosync.spec import ALGORITHMS, ClusterSpec, ModelSpec, Strategy
from autosync.spec.algorithms import SEEN_AS

FEATURES_VERSION = 3

FEATURES = (
    # Seconds as shares of the predicted step.
    "compute_share",
    "latency_share",
    "link_pull_share",
    "link_push_share",
    "node_pull_share",
    "node_push_share",
    "server_push_share",
    "chain_share",
    "exposed_share",
    # How evenly resources are loaded: logarithm of the busiest load over the mean load.
    "link_imbalance",
    "node_imbalance",
    "server_imbalance",
    # Bytes: shares of all shards' gradients, before they are encoded, by synchronizer and by when they become ready.
    "ring_payload_share",
    "tree_payload_share",
    "halving_doubling_payload_share",
    "hierarchical_payload_share",
    "all_gather_payload_share",
    "gathered_rows_payload_share",
    "dense_server_payload_share",
    "local_copy_payload_share",
    "sparse_server_payload_share",
    "largest_bucket_share",
    "early_payload_share",
    "late_payload_share",
    "log_pushed_over_gradient_bytes",
    "log_coded_over_gradient_bytes",
    # Counts.
    "log_messages_a_replica",
    "log_byte_cost_over_message_cost",
    "log_buckets",
    "log_reduced_shards",
    "log_server_shards",
    "log_shards_a_variable",
    "servers_used_share",
)
"""The features' names, in the order that the checkpoint in `autosync/simulator/pretrained` was fitted on.

At the next fit from scratch, append `collective_payload_share` and increase `FEATURES_VERSION`; the checkpoint was not
trained on records with collectives.
"""

REDUCED_KINDS = (*(algorithm for algorithm in ALGORITHMS if algorithm not in SEEN_AS), "all_gather")
SERVED_KINDS = ("dense_server", "local_copy", "sparse_server")
KINDS = (*REDUCED_KINDS, "gathered_rows", *SERVED_KINDS)
"""The kinds of channel whose share may be a feature."""

GRADIENT, TOUCHED = Quantities._fields.index("gradient_bytes"), Quantities._fields.index("touched_bytes")


def feature_table(
    model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy], coefficients: Coefficients
) -> FloatArray:
    """Return one row per strategy and one column per name in `FEATURES`, float64 (n, f), finite.

    Raises `SpecError` if a strategy does not fit the model and the cluster.
    """
    return features_and_seconds(model, cluster, strategies, coefficients)[0]


def features_and_seconds(
    model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy], coefficients: Coefficients
) -> tuple[FloatArray, FloatArray]:
    """Return `feature_table`, and the closed form's step seconds of the same loads, float64 (n,)."""
    table, seconds = np.empty((len(strategies), len(FEATURES))), np.empty(len(strategies))
    for positions, used, loads in loads_by_replicas(model, cluster, strategies):
        terms = step_terms(loads, coefficients)
        seconds[positions] = predicted = step_seconds(loads, coefficients)
        columns = _time_columns(loads, terms, predicted) | _byte_columns(used, loads)
        columns |= _count_columns(used, loads) | _message_columns(loads, coefficients)
        table[positions] = np.stack([columns[name] for name in FEATURES], axis=1)
    return table, seconds


def _time_columns(loads: ColumnLoads, terms: StepTerms, seconds: FloatArray) -> dict[str, FloatArray]:
    at = loads.tables.columns
    shares = _second_columns(terms)
    columns = {f"{name}_share": np.asarray(value / seconds) for name, value in shares.items()}
    link_seconds = loads.total(at.link_bytes) / [link.bytes_per_second for link in loads.tables.cluster.links]
    server_bytes = loads.total(at.server_reduced_bytes) + loads.total(at.server_updated_bytes)
    return columns | {
        "link_imbalance": _imbalance(link_seconds),
        "node_imbalance": _imbalance(loads.total(at.node_bytes) / loads.tables.node_cores),
        "server_imbalance": _imbalance(server_bytes),
    }


def _second_columns(terms: StepTerms) -> dict[str, FloatArray | float]:
    return {
        "compute": terms.compute,
        "latency": terms.latency,
        "link_pull": terms.link_pull,
        "link_push": terms.link_push,
        "node_pull": terms.node_pull,
        "node_push": terms.node_push,
        "server_push": terms.server_push,
        "chain": terms.chain,
        "exposed": terms.overlapped - terms.compute,
    }


def _byte_columns(used: ChannelTotals, loads: ColumnLoads) -> dict[str, FloatArray]:
    tables, at = loads.tables, loads.tables.columns
    payload = used.quantities[..., GRADIENT]
    whole = _at_least(payload.sum(axis=(1, 2)), 1.0)
    by_channel = payload.sum(axis=1) / whole[:, None]
    kinds = np.array([_kind(*channel) for channel in used.channels])
    coded = used.quantities[..., TOUCHED].sum(axis=1)[:, kinds == "coding"].sum(axis=1)
    columns = {f"{kind}_payload_share": by_channel[:, kinds == kind].sum(axis=1) for kind in KINDS}
    by_phase = payload.sum(axis=2) / whole[:, None]
    sent = loads.total(at.node_bytes).sum(axis=1) / 2 / len(tables.replicas)
    return columns | {
        "largest_bucket_share": used.largest_bucket_bytes / whole,
        "early_payload_share": by_phase[:, : PHASES // 2].sum(axis=1),
        "late_payload_share": by_phase[:, -1],
        "log_pushed_over_gradient_bytes": np.log1p(sent / tables.gradient_bytes),
        "log_coded_over_gradient_bytes": np.log1p(coded / tables.gradient_bytes),
    }


def _message_columns(loads: ColumnLoads, coefficients: Coefficients) -> dict[str, FloatArray]:
    at = loads.tables.columns
    messages = loads.total(at.node_messages).sum(axis=1) / 2
    byte_cost = loads.total(at.node_bytes).sum(axis=1) / 2 * coefficients.core_seconds_per_byte
    message_cost = _at_least(messages, 1.0) * _at_least(np.array(coefficients.core_seconds_per_message), 1e-9)
    return {
        "log_messages_a_replica": np.log1p(messages / len(loads.tables.replicas)),
        "log_byte_cost_over_message_cost": np.log1p(byte_cost / message_cost),
    }


def _count_columns(used: ChannelTotals, loads: ColumnLoads) -> dict[str, FloatArray]:
    tables = loads.tables
    kinds = np.array([_kind(*channel) for channel in used.channels])
    on_server = used.shards[:, np.isin(kinds, SERVED_KINDS)].sum(axis=1)
    reduced = used.shards[:, np.isin(kinds, REDUCED_KINDS)].sum(axis=1)
    updated = loads.total(tables.columns.server_updated_bytes) > 0
    return {
        "log_buckets": np.log1p(used.buckets),
        "log_reduced_shards": np.log1p(reduced),
        "log_server_shards": np.log1p(on_server),
        "log_shards_a_variable": np.log(used.shards.sum(axis=1) / len(tables.phases)),
        "servers_used_share": updated.mean(axis=1),
    }


def _kind(channel: str, server: str, local_copy: bool) -> str:
    """Return one of `REDUCED_KINDS` or of `KINDS`, or a channel without gradients."""
    del server
    if channel in ("dense_server", "pull"):
        return "local_copy" if local_copy else "dense_server"
    return SEEN_AS.get(channel, channel)


def _imbalance(loads: FloatArray) -> FloatArray:
    """Return the logarithm of the largest over the mean load, 0 without load; `loads` (n, resources) -> (n,)."""
    mean = loads.mean(axis=1)
    return np.log(np.where(mean > 0, loads.max(axis=1) / _at_least(mean, 1e-300), 1.0))


def _at_least(values: FloatArray, least: float) -> FloatArray:
    return np.maximum(values, least)


SHAPE = ("log_slowest_over_mean_rate", "log_slowest_over_mean_cores", "log_replicas", "log_wire_over_step")
REPLAY_POOLED = (
    "replay_compute_share",
    "replay_communication_share",
    "replay_exposed_share",
    "replay_busiest_link",
    "replay_mean_link",
    "replay_busiest_node",
    "replay_mean_node",
    "replay_busiest_server",
    "replay_busiest_machine",
    "replay_mean_slack",
    "replay_mean_wait",
    "replay_mean_travel",
    "replay_critical_bytes_share",
)
POOLED_INPUTS = (*FEATURES, *SHAPE, *REPLAY_POOLED)
TOPOLOGY_POOLED = ("link_imbalance", "node_imbalance", *SHAPE)
"""The inputs withheld from a learner without the cluster's topology."""

CRITICAL = 0.02
"""A variable whose slack is less than this share of the step is on the critical path."""


def closed_form_coefficients(replay: ReplayCoefficients) -> Coefficients:
    """Return the closed form's coefficients that agree with a replay's, for the closed form's features."""
    return Coefficients(**{field.name: getattr(replay, field.name) for field in fields(Coefficients)})


def shape_pooled(shape: ClusterShape, replicas: int, gradient_bytes: float, step_seconds: FloatArray) -> FloatArray:
    """Return `SHAPE` of n strategies whose steps take `step_seconds` (n,): float64 (n, 4)."""
    present = shape.replicas_share > 0
    wire = gradient_bytes / shape.slowest_bytes_per_second / step_seconds
    table = np.empty((len(step_seconds), len(SHAPE)))
    table[:, 0], table[:, 1] = shape.log_rate[present].min(), shape.log_cores[present].min()
    table[:, 2], table[:, 3] = np.log(replicas), np.log1p(wire)
    return table


def replay_pooled(figures: StepFigures, shape: ClusterShape, gradient_bytes: FloatArray) -> FloatArray:
    """Return `REPLAY_POOLED` of one strategy, float64 (13,); `gradient_bytes` (variables,) are its variables'."""
    variables, step, resources = figures.variables, figures.step_seconds, shape.resources
    share = gradient_bytes / gradient_bytes.sum()
    links, nodes = figures.utilization[resources.links], figures.utilization[resources.nodes]
    return np.array(
        [
            figures.compute_seconds / step,
            figures.communication_seconds / step,
            figures.exposed_seconds / step,
            figures.busiest_link,
            links.mean(),
            nodes.max(),
            nodes.mean(),
            figures.busiest_server,
            figures.utilization[resources.shared].max(initial=0.0),
            share @ variables.slack / step,
            share @ np.maximum(variables.first_sent - variables.ready, 0.0) / step,
            share @ np.maximum(variables.arrived - variables.first_sent, 0.0) / step,
            share @ (variables.slack < CRITICAL * step),
        ]
    )

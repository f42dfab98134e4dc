"""Inputs of a whole strategy: the closed form's features, the cluster's shape, what the replay says of the step."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import Coefficients
from autosync.cost.encoding.places import Places
from autosync.cost.features import FEATURES
from autosync.cost.replay.coefficients import ReplayCoefficients
from autosync.cost.replay.figures import StepFigures

__all__ = [
    "POOLED_INPUTS",
    "REPLAY_POOLED",
    "TOPOLOGY_POOLED",
    "closed_form_coefficients",
    "replay_pooled",
    "shape_pooled",
]

FloatArray = npt.NDArray[np.float64]

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
"""Inputs that a learner which must do without the cluster's topology is not told."""

CRITICAL = 0.02
"""A variable whose slack is less than this part of the step is on the critical path."""


def closed_form_coefficients(replay: ReplayCoefficients) -> Coefficients:
    """The closed form's coefficients that agree with a replay's, for its features."""
    return Coefficients(**{each.name: getattr(replay, each.name) for each in fields(Coefficients)})


def shape_pooled(places: Places, replicas: int, gradient_bytes: float, step_seconds: FloatArray) -> FloatArray:
    """`SHAPE` of n strategies whose steps take `step_seconds` (n,): float64 (n, 4)."""
    present = places.replicas_share > 0
    wire = gradient_bytes / places.slowest_bytes_per_second / step_seconds
    table = np.empty((len(step_seconds), len(SHAPE)))
    table[:, 0], table[:, 1] = places.log_rate[present].min(), places.log_cores[present].min()
    table[:, 2], table[:, 3] = np.log(replicas), np.log1p(wire)
    return table


def replay_pooled(figures: StepFigures, places: Places, gradient_bytes: FloatArray) -> FloatArray:
    """`REPLAY_POOLED`, float64 (13,), of one strategy; `gradient_bytes` (variables,) are its variables'."""
    each, step, resources = figures.variables, figures.step_seconds, places.resources
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
            share @ each.slack / step,
            share @ np.maximum(each.first_sent - each.ready, 0.0) / step,
            share @ np.maximum(each.arrived - each.first_sent, 0.0) / step,
            share @ (each.slack < CRITICAL * step),
        ]
    )

"""Simulators of step time, link loads and lower bounds of a strategy, all computed without running a step."""

from autosync.cost.blended import BASES, Blended
from autosync.cost.bound import StepBound, all_reduce_bound_seconds, step_bound
from autosync.cost.closed_form.analytic import AnalyticSimulator, drifts_in_cell
from autosync.cost.closed_form.breakdown import Bottleneck, Breakdown, Traffic, bottleneck, breakdown, traffic
from autosync.cost.coefficients import PRIORS, REPLAY_PRIORS, Coefficients, ReplayCoefficients
from autosync.cost.composed import CascadeSimulator, TransferSimulator, weight_of
from autosync.cost.protocol import Restorable, Simulator, Unsure, with_spread
from autosync.cost.replay import Replay, Span, StepFigures, StepOverlap, VariableFigures, VirtualClock, side_by_side

__all__ = [
    "BASES",
    "PRIORS",
    "REPLAY_PRIORS",
    "AnalyticSimulator",
    "Blended",
    "Bottleneck",
    "Breakdown",
    "CascadeSimulator",
    "Coefficients",
    "Replay",
    "ReplayCoefficients",
    "Restorable",
    "Simulator",
    "Span",
    "StepBound",
    "StepFigures",
    "StepOverlap",
    "Traffic",
    "TransferSimulator",
    "Unsure",
    "VariableFigures",
    "VirtualClock",
    "all_reduce_bound_seconds",
    "bottleneck",
    "breakdown",
    "drifts_in_cell",
    "side_by_side",
    "step_bound",
    "traffic",
    "weight_of",
    "with_spread",
]

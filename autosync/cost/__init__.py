"""What arithmetic alone can say about a strategy: what loads which link, bounds, and step times by two simulators."""

from autosync.cost.blended import BASES, Blended
from autosync.cost.bound import StepBound, all_reduce_bound_seconds, step_bound
from autosync.cost.closed_form.analytic import AnalyticSimulator, drifts_in_cell
from autosync.cost.closed_form.breakdown import Bottleneck, Breakdown, Traffic, bottleneck, breakdown, traffic
from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.cost.composed import Drafted, Informed, weight_of
from autosync.cost.protocol import Restorable, Simulator, Unsure, with_spread
from autosync.cost.replay import Replay, StepFigures, VariableFigures, VirtualClock, side_by_side

__all__ = [
    "BASES",
    "AnalyticSimulator",
    "Blended",
    "Bottleneck",
    "Breakdown",
    "Coefficients",
    "Drafted",
    "Informed",
    "Replay",
    "ReplayCoefficients",
    "Restorable",
    "Simulator",
    "StepBound",
    "StepFigures",
    "Traffic",
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

"""What arithmetic alone can say about a strategy: its traffic, its step time, its features."""

from autosync.cost.analytic import AnalyticSimulator
from autosync.cost.bottleneck import Bottleneck, bottleneck
from autosync.cost.bound import StepBound, step_bound
from autosync.cost.breakdown import Breakdown, breakdown
from autosync.cost.coefficients import Coefficients
from autosync.cost.drafted import Drafted
from autosync.cost.features import FEATURES, FEATURES_VERSION, feature_table, features_and_seconds
from autosync.cost.informed import Informed, weight_of
from autosync.cost.leveling import drifts_in_cell
from autosync.cost.protocol import Restorable, Simulator, Unsure, with_spread
from autosync.cost.replay import Replay, ReplayCoefficients, StepFigures, VariableFigures, side_by_side
from autosync.cost.traffic import Traffic, traffic

__all__ = [
    "FEATURES",
    "FEATURES_VERSION",
    "AnalyticSimulator",
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
    "bottleneck",
    "breakdown",
    "drifts_in_cell",
    "feature_table",
    "features_and_seconds",
    "side_by_side",
    "step_bound",
    "traffic",
    "weight_of",
    "with_spread",
]

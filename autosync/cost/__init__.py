"""What arithmetic alone can say about a strategy: its traffic, its step time, its features."""

from autosync.cost.analytic import AnalyticSimulator
from autosync.cost.breakdown import Breakdown, breakdown
from autosync.cost.coefficients import Coefficients
from autosync.cost.families import positions_by_family
from autosync.cost.features import FEATURES, FEATURES_VERSION, feature_table, features_and_seconds
from autosync.cost.protocol import Restorable, Simulator
from autosync.cost.replay import Replay, ReplayCoefficients, StepFigures, VariableFigures, side_by_side
from autosync.cost.traffic import Traffic, traffic

__all__ = [
    "FEATURES",
    "FEATURES_VERSION",
    "AnalyticSimulator",
    "Breakdown",
    "Coefficients",
    "Replay",
    "ReplayCoefficients",
    "Restorable",
    "Simulator",
    "StepFigures",
    "Traffic",
    "VariableFigures",
    "breakdown",
    "feature_table",
    "features_and_seconds",
    "positions_by_family",
    "side_by_side",
    "traffic",
]

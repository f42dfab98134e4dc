"""The replay: one step gone through event by event, over links, cores and servers that tasks queue for."""

from autosync.cost.replay.figures import StepFigures, VariableFigures
from autosync.cost.replay.parts import exchange_seconds
from autosync.cost.replay.simulator import Replay
from autosync.cost.replay.step import Step, step_of
from autosync.cost.replay.trace import predicted_trace, side_by_side

__all__ = [
    "Replay",
    "Step",
    "StepFigures",
    "VariableFigures",
    "exchange_seconds",
    "predicted_trace",
    "side_by_side",
    "step_of",
]

"""The replay: one step gone through event by event, over links, cores and servers that tasks queue for."""

from autosync.cost.replay.alone import exchange_seconds
from autosync.cost.replay.figures import StepFigures, VariableFigures
from autosync.cost.replay.simulator import Replay
from autosync.cost.replay.step import Step, step_of
from autosync.cost.replay.trace import predicted_trace, side_by_side
from autosync.cost.replay.virtual import VirtualClock

__all__ = [
    "Replay",
    "Step",
    "StepFigures",
    "VariableFigures",
    "VirtualClock",
    "exchange_seconds",
    "predicted_trace",
    "side_by_side",
    "step_of",
]

"""The replay: a discrete-event simulation of one step, in which tasks queue for links, cores and servers."""

from autosync.cost.replay.alone import exchange_seconds
from autosync.cost.replay.figures import StepFigures, VariableFigures
from autosync.cost.replay.overlap import Span, StepOverlap
from autosync.cost.replay.simulator import Replay
from autosync.cost.replay.step import ReplayedStep, step_of
from autosync.cost.replay.trace import predict_trace, side_by_side
from autosync.cost.replay.virtual import VirtualClock

__all__ = [
    "Replay",
    "ReplayedStep",
    "Span",
    "StepFigures",
    "StepOverlap",
    "VariableFigures",
    "VirtualClock",
    "exchange_seconds",
    "predict_trace",
    "side_by_side",
    "step_of",
]

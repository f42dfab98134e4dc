"""The torch room: simulators that learn what the closed form misses."""

from autosync.simulator.checkpoint import CheckpointError
from autosync.simulator.learned import LearnedSimulator

__all__ = ["CheckpointError", "LearnedSimulator"]

"""The torch room: simulators that learn what the base simulator misses."""

from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.saved import CHECKPOINTS, CheckpointError, shipped_checkpoint
from autosync.simulator.settings import Ablation, TrainingSettings

__all__ = [
    "CHECKPOINTS",
    "NETWORKS",
    "Ablation",
    "CheckpointError",
    "LearnedSimulator",
    "TrainingSettings",
    "shipped_checkpoint",
]

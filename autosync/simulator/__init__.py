"""The torch package: simulators that learn the errors of the base simulator."""

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

"""The torch room: simulators that learn what the base simulator misses."""

from autosync.simulator.checkpoint import CheckpointError
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.settings import Ablation, TrainingSettings
from autosync.simulator.shipped import shipped_checkpoint

__all__ = ["NETWORKS", "Ablation", "CheckpointError", "LearnedSimulator", "TrainingSettings", "shipped_checkpoint"]

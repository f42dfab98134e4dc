"""Trains the user's own model under a strategy: `distribute`, `Trainer` and checkpoints, in this process or on Ray."""

from autosync.errors import TrainingError
from autosync.train.checkpoint_folder import Checkpoints
from autosync.train.data import RayBatches, Sharded
from autosync.train.distribution import distribute
from autosync.train.history import History
from autosync.train.place import use_logical_devices
from autosync.train.trainer import Trainer

__all__ = [
    "Checkpoints",
    "History",
    "RayBatches",
    "Sharded",
    "Trainer",
    "TrainingError",
    "distribute",
    "use_logical_devices",
]

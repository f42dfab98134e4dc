"""What training can fail with."""

from __future__ import annotations

from autosync.errors import AutosyncError

__all__ = ["TrainingError"]


class TrainingError(AutosyncError, RuntimeError):
    """Training cannot begin or go on: a batch does not fit, a worker is gone, a checkpoint cannot be used."""

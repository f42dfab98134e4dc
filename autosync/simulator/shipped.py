"""The checkpoint that comes with the program: a simulator that was fitted on the shipped dataset."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from autosync.simulator.checkpoint import DOCUMENT

__all__ = ["PRETRAINED", "shipped_checkpoint"]

PRETRAINED = "pretrained"
"""The folder in this package; `autosync.simulator.pretrain` writes it."""


def shipped_checkpoint() -> Path | None:
    """The folder of the checkpoint, for `LearnedSimulator.load`; None when none comes with this program."""
    folder = Path(str(files("autosync.simulator"))) / PRETRAINED
    return folder if (folder / DOCUMENT).exists() else None

"""A directory of checkpoints: written every N steps, the newest kept."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from autosync.errors import TrainingError
from autosync.train.trainer import Trainer


@dataclass
class Checkpoints:
    """A callback for `Trainer.fit` that saves to `directory` every `every` steps, and keeps the newest `keep` files."""

    reads_model: ClassVar[bool] = False
    sets_model: ClassVar[bool] = False

    directory: str | os.PathLike[str]
    every: int
    keep: int = 2
    _trainer: Trainer | None = field(default=None, init=False, repr=False)

    def set_trainer(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - Keras' form
        assert self._trainer is not None, "fit comes first"
        if self._trainer.steps % self.every == 0:
            self.save(self._trainer)

    def save(self, trainer: Trainer) -> Path:
        """Save now. Older files are removed after the new file is complete."""
        saved = trainer.save(Path(self.directory) / f"step-{trainer.steps:08d}.keras")
        for old in self.files()[: -self.keep]:
            old.unlink(missing_ok=True)
        return saved

    def latest(self) -> Path | None:
        """The newest checkpoint, or None. Raises `TrainingError` for a link, which may lead to a stranger's file."""
        newest = self.files()[-1] if self.files() else None
        if newest is not None and newest.is_symlink():
            raise TrainingError(f"Training resumes from its own files, but {newest} is a link; remove it.")
        return newest

    def files(self) -> list[Path]:
        """The checkpoints, the oldest first."""
        return sorted(Path(self.directory).glob("step-*.keras"))

"""A directory of checkpoints: written every so many steps, the newest kept."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from autosync.errors import TrainingError
from autosync.files import inner_folder
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
        """Save now. The oldest are removed once the new one is there."""
        folder = inner_folder(Path(self.directory).parent, Path(self.directory).name)
        saved = trainer.save(folder / f"step-{trainer.steps:08d}.keras")
        for old in self.files()[: -self.keep]:
            old.unlink(missing_ok=True)
        return saved

    def latest(self) -> Path | None:
        """The newest checkpoint, or None. Raises `TrainingError` for a link, which may lead to a stranger's file."""
        files = self.files()
        if not files:
            return None
        for path in (Path(self.directory), files[-1]):
            if path.is_symlink():
                raise TrainingError(f"Training resumes from its own files, but {path} is a link; remove it.")
        return files[-1]

    def files(self) -> list[Path]:
        """The checkpoints, the oldest first."""
        return sorted(Path(self.directory).glob("step-*.keras"))

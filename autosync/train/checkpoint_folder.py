"""A folder of checkpoints: one every N steps, with only the newest kept."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from autosync.errors import TrainingError


class Saver(Protocol):
    """A trainer that saves its state."""

    @property
    def steps(self) -> int:
        """Finished steps."""
        ...

    def save(self, path: Path) -> Path:
        """Write a checkpoint to `path`, and return its path. Raises `TrainingError`."""
        ...


@dataclass
class Checkpoints:
    """A callback of training that saves to `directory` every `every` steps and keeps the newest `keep` files.

    `suffix` ends the names of the files.
    """

    reads_model: ClassVar[bool] = False
    sets_model: ClassVar[bool] = False

    directory: str | os.PathLike[str]
    every: int
    keep: int = 2
    suffix: str = ".keras"
    _trainer: Saver | None = field(default=None, init=False, repr=False)

    def set_trainer(self, trainer: Saver) -> None:
        self._trainer = trainer

    @property
    def acts_every(self) -> int:
        """The number of steps between two saves; see `Hooks.borders`."""
        return self.every

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - Keras' signature
        assert self._trainer is not None, "fit comes first"
        if self._trainer.steps % self.every == 0:
            self.save(self._trainer)

    def save(self, trainer: Saver) -> Path:
        """Save now; older files are removed only after the new file is complete."""
        saved = trainer.save(Path(self.directory) / f"step-{trainer.steps:08d}{self.suffix}")
        for old in self.files()[: -self.keep]:
            old.unlink(missing_ok=True)
        return saved

    def latest(self) -> Path | None:
        """Return the newest checkpoint, or None.

        Raises `TrainingError` for a link, which may lead to another user's file.
        """
        newest = self.files()[-1] if self.files() else None
        if newest is not None and newest.is_symlink():
            raise TrainingError(f"Training resumes from its own files, but {newest} is a link; remove it.")
        return newest

    def files(self) -> list[Path]:
        """Return the checkpoints, the oldest first."""
        return sorted(Path(self.directory).glob(f"step-*{self.suffix}"))

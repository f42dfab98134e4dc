"""The directory of one training run: what was asked, the loss along the way, the checkpoints."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from autosync.spec import Strategy, cut, read_json
from autosync.train.checkpoints import Checkpoints
from autosync.train.training_error import TrainingError

__all__ = ["RunDirectory", "command_to_go_on"]


@final
@dataclass(frozen=True)
class RunDirectory:
    """`run.json` (what was asked), `loss.jsonl` (a line for every line printed) and `checkpoints`."""

    path: Path

    @classmethod
    def open(cls, path: Path, model: str, strategy: Strategy, resume: bool) -> RunDirectory:
        """A new directory, or with `resume` that of a run of the same model and strategy. Raises `TrainingError`."""
        run = cls(path)
        file = path / "run.json"
        if resume and not file.exists():
            raise TrainingError(f"--resume needs a run to go on from, but {path} holds none; leave it out.")
        if file.exists() and not resume:
            raise TrainingError(f"--out {path} holds a run already; add --resume to go on, or name another.")
        if resume:
            before = read_json(file, str(file))
            for name, now in _identity(model, strategy).items():
                if before.get(name) != now:
                    was = cut(str(before.get(name)))
                    raise TrainingError(f"--resume goes on with the same --{name}, but it was {was} and now is {now}.")
        return run

    def begin(self, model: str, strategy: Strategy) -> None:
        """Make the directory and write down what was asked. Raises `TrainingError`."""
        temporary = self.path / f".run.json.{os.getpid()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(_identity(model, strategy)))
            os.replace(temporary, self.path / "run.json")
        except OSError as error:
            raise TrainingError(
                f"--out {self.path} cannot be made or written: {error.strerror}; name another."
            ) from None

    def checkpoints(self, every: int) -> Checkpoints:
        return Checkpoints(self.path / "checkpoints", every)

    def add_line(self, line: dict[str, Any]) -> None:
        """Append to `loss.jsonl`. Raises `OSError`."""
        with (self.path / "loss.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _identity(model: str, strategy: Strategy) -> dict[str, Any]:
    """What a resumed run must share with the one it goes on from."""
    return {"model": model, "strategy": strategy.digest}


def command_to_go_on(arguments: Sequence[str], out: Path) -> str:
    """The command that goes on with this run."""
    named = any(each == "--out" or each.startswith("--out=") for each in arguments)
    more = [*([] if named else ["--out", str(out)]), *([] if "--resume" in arguments else ["--resume"])]
    return f"python -m autosync.train {shlex.join([*arguments, *more])}"

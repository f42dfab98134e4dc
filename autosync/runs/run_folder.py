"""The folder of a search, a race or a training run: begun once, resumed with the same options, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from autosync.errors import AutosyncError
from autosync.files import write_atomically
from autosync.spec import quote, read_json

GO_ON = "add --resume to continue"


def flag_of(name: str) -> str:
    """The command-line form of the option `name`."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class RunFolder:
    """Files of one run. Each file is replaced atomically, so a kill leaves the old or the new one.

    Subclasses define the kind of run: a `noun`, the file whose presence means that the run has begun, and the class of
    errors that refuse options.
    """

    path: Path

    noun: ClassVar[str] = "run"
    beginning: ClassVar[str] = "run.json"
    refusal: ClassVar[type[AutosyncError]] = AutosyncError

    def file(self, name: str) -> Path:
        return self.path / name

    def check_begun(self, resume: bool) -> None:
        """Raise if the folder already holds a run or, with `resume`, if it holds none."""
        is_begun = self.file(self.beginning).exists()
        if resume and not is_begun:
            raise self.refusal(
                f"--resume needs an existing {self.noun}, but {self.path} holds none; omit --resume to start one."
            )
        if is_begun and not resume:
            raise self.refusal(
                f"--out {self.path} already holds a {self.noun}; add --resume to continue it, or name another folder."
            )

    def check_same(
        self, before: Mapping[str, Any], now: Mapping[str, Any], flag: Callable[[str], str] = flag_of
    ) -> None:
        """Raise if an option that a resumed run must share with the run `before` differs `now`."""
        for name, value in now.items():
            if before.get(name) != value:
                raise self.refusal(
                    f"--resume needs the same {flag(name)}, but it was {quote(before.get(name))} and now is "
                    f"{quote(value)}; restore it, or start a new {self.noun}."
                )

    def read(self, name: str) -> dict[str, Any]:
        """The JSON document in the file `name`, which is never read through a link. Raises `AutosyncError`."""
        file = self.file(name)
        try:
            return read_json(file, str(file), through_links=False)
        except OSError as error:
            raise self.refusal(f"{file} cannot be read: {error.strerror}; name another folder.") from None

    def write(self, name: str, document: Mapping[str, Any], indent: int | None = None) -> None:
        """Replace the file `name` by a JSON document. Raises `WriteError`, as on a full disk."""
        self.replace(name, json.dumps(document, indent=indent))

    def replace(self, name: str, text: str) -> None:
        """Replace the file `name`. Raises `WriteError`, as on a full disk."""
        write_atomically(self.file(name), text, afterwards=GO_ON)

"""The folder of a race: its options, a file for every run, and its outcome, all as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, SpecError
from autosync.files import check_inside, inner_folder, write_atomically
from autosync.runs.race_result import asked_fault, result_fault
from autosync.spec import ClusterSpec, Strategy, TargetRecord, canonical_json, quoted, read_json

FORMAT = "autosync.race/1"
RECORDS = "records"

COMBINED = " + "
"""What joins the names of disciplines in that of a combination of them."""


NUMBER = re.compile("[0-9]{4,9}")
"""The name of a record's file. Other files may lie among the records."""


@dataclass(frozen=True)
class RaceFolder:
    """Files of one race. Each file is replaced atomically, so a kill leaves the old or the new."""

    path: Path

    @classmethod
    def open(cls, path: Path, identity: Mapping[str, Any], resume: bool) -> RaceFolder:
        """A new folder, or with `resume` that of a race of which the same was asked. Raises `AutosyncError`."""
        folder, file = cls(path), path / "race.json"
        if resume and not file.exists():
            raise AutosyncError(f"--resume needs a race to go on from, but {path} holds none; leave it out.")
        if file.exists() and not resume:
            raise AutosyncError(f"--out {path} holds a race already; add --resume to go on, or name another.")
        if resume:
            before = folder.asked()
            for name, value in identity.items():
                if before.get(name) != value:
                    raise AutosyncError(
                        f"--resume goes on with the same --{name.replace('_', '-')}, but it was "
                        f"{quoted(before.get(name))} and now is {quoted(value)}."
                    )
            return folder
        inner_folder(path, RECORDS)
        return folder

    @property
    def strategy_file(self) -> Path:
        return self.path / "strategy.json"

    def asked(self) -> dict[str, Any]:
        """The question, from `race.json`. Raises `AutosyncError`."""
        return self._checked("race.json", asked_fault)

    def write_asked(self, identity: Mapping[str, Any], more: Mapping[str, Any], cluster: ClusterSpec) -> None:
        self._write("race.json", {"format": FORMAT, **identity, **more, "cluster": cluster.to_json()})

    def base(self) -> Strategy:
        """The plain strategy of a race that has begun. Raises `AutosyncError`."""
        base = self.asked().get("base")
        if base is None:
            raise AutosyncError(f"{self.path / 'race.json'} must state the plain strategy; start the race again.")
        return Strategy.from_json(base)

    @property
    def record_count(self) -> int:
        return len(list((self.path / RECORDS).glob("*.json")))

    def records(self) -> list[TargetRecord]:
        """The records, in the order of the runs. Raises `AutosyncError` for a file that holds no record."""
        files = sorted(check_inside(self.path / RECORDS).glob("*.json"), key=lambda file: (len(file.stem), file.stem))
        try:
            return [TargetRecord.from_json(read_json(file, str(file), through_links=False)) for file in files]
        except OSError as error:
            raise AutosyncError(f"A record of {self.path} cannot be read: {error.strerror}; remove it.") from None
        except SpecError as error:
            raise AutosyncError(f"A record of {self.path} cannot be read: {error} Remove it, and resume.") from None

    def append(self, record: TargetRecord) -> None:
        """Keep `record` for good, under the number after the highest: a user may have removed damaged records."""
        inner_folder(self.path, RECORDS)
        numbers = [int(file.stem) for file in (self.path / RECORDS).glob("*.json") if NUMBER.fullmatch(file.stem)]
        self._write(f"{RECORDS}/{max(numbers, default=-1) + 1:04d}.json", record.to_json())

    def write_result(self, result: Mapping[str, Any]) -> None:
        self._write("result.json", result)

    def result(self) -> dict[str, Any] | None:
        """The outcome, from `result.json`; None before the race has ended. Raises `AutosyncError`."""
        return self._checked("result.json", result_fault) if (self.path / "result.json").exists() else None

    def write_strategy(self, strategy: Strategy) -> None:
        self._write("strategy.json", strategy.to_json())

    def _checked(self, name: str, fault_of: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
        file = self.path / name
        try:
            document = read_json(file, str(file), through_links=False)
        except OSError as error:
            raise AutosyncError(f"{file} cannot be read: {error.strerror}.") from None
        if fault := fault_of(document):
            raise AutosyncError(f"{file} must be as a race left it, but {fault}; remove it, or name another race.")
        return document

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        text = canonical_json(document) if name.startswith("records/") else json.dumps(document, indent=2)
        write_atomically(self.path / name, text, afterwards="add --resume to go on")


def is_race(path: Path) -> bool:
    """Whether the folder `path` holds a race."""
    return (path / "race.json").exists()

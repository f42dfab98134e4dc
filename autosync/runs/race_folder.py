"""The folder of a race: its options, a file per run, and its outcome, all as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, SpecError
from autosync.files import check_inside, inner_folder
from autosync.runs.race_result import question_fault, result_fault
from autosync.runs.run_folder import RunFolder
from autosync.spec import ClusterSpec, Strategy, TargetRecord, canonical_json, read_json

FORMAT = "autosync.race/1"
RECORDS = "records"

COMBINED = " + "
"""The separator of disciplines' names in the name of their combination."""


NUMBER = re.compile("[0-9]{4,9}")
"""The pattern of a record's file name. Other files may lie among the records."""


@dataclass(frozen=True)
class RaceFolder(RunFolder):
    """The folder of a race."""

    noun = "race"
    beginning = "race.json"

    @classmethod
    def open(cls, path: Path, identity: Mapping[str, Any], resume: bool) -> RaceFolder:
        """A new folder, or with `resume` the folder of a race with the same options. Raises `AutosyncError`."""
        folder = cls(path)
        folder.check_begun(resume)
        if resume:
            folder.check_same(folder.asked(), identity)
        else:
            inner_folder(path, RECORDS)
        return folder

    @property
    def strategy_file(self) -> Path:
        return self.path / "strategy.json"

    def asked(self) -> dict[str, Any]:
        """The race's options, from `race.json`. Raises `AutosyncError`."""
        return self._read_checked("race.json", question_fault)

    def write_asked(self, identity: Mapping[str, Any], more: Mapping[str, Any], cluster: ClusterSpec) -> None:
        self.write("race.json", {"format": FORMAT, **identity, **more, "cluster": cluster.to_json()}, indent=2)

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
        """Store `record` permanently, under the highest number plus one, because a user may have removed damaged
        records.
        """
        inner_folder(self.path, RECORDS)
        numbers = [int(file.stem) for file in (self.path / RECORDS).glob("*.json") if NUMBER.fullmatch(file.stem)]
        self.replace(f"{RECORDS}/{max(numbers, default=-1) + 1:04d}.json", canonical_json(record.to_json()))

    def write_result(self, result: Mapping[str, Any]) -> None:
        self.write("result.json", result, indent=2)

    def result(self) -> dict[str, Any] | None:
        """The outcome, from `result.json`; None before the race has ended. Raises `AutosyncError`."""
        return self._read_checked("result.json", result_fault) if (self.path / "result.json").exists() else None

    def write_strategy(self, strategy: Strategy) -> None:
        self.write("strategy.json", strategy.to_json(), indent=2)

    def _read_checked(self, name: str, fault_of: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
        document = self.read(name)
        if fault := fault_of(document):
            raise AutosyncError(
                f"{self.file(name)} must be as the race wrote it, but {fault}; remove the file, or name another race."
            )
        return document


def is_race(path: Path) -> bool:
    """Whether the folder `path` holds a race."""
    return (path / "race.json").exists()

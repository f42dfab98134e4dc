"""Finds the records of a run. A run's own files name the place, and a stranger may have written them.

A place is read without asking if it is a folder inside the run's folder or the working folder, or a default folder of
the tuner. Any other place is read only if the user names it, because an address would be requested with the user's own
credentials, and a path may lead to another machine.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.spec import cut
from autosync.spec.address import Place, place_of

DATA = "data"
"""The folder in which the tuner keeps its records by default."""


@dataclass(frozen=True)
class KeptRecords:
    """`place` is the place to read, if any may be read. `elsewhere` is the place that the run names but the user has
    not.
    """

    place: Place | None = None
    elsewhere: Place | None = None

    def missing(self, option: str) -> str:
        """A sentence with the place that was not read, and the `option`, such as --data, that reads it; empty
        without one.
        """
        if self.elsewhere is None:
            return ""
        place = cut(str(self.elsewhere))
        return (
            f"The run names its records at {place}, outside its folder, which is not read unasked; "
            f"pass {option} {shlex.quote(place)} to read them."
        )


def kept_records(directory: Path | None, document: Mapping[str, Any]) -> KeptRecords:
    """The records of the run in `directory`, whose run.json is `document`: the place that the run used or, if the
    run was moved, the one next to it. Without a run, the records in the working folder.
    """
    named = document.get("options", {}).get(DATA)
    kept = None if named is None else place_of(str(named))
    default = _default_folders(directory)
    candidates: list[Path] = [kept] if isinstance(kept, Path) and _is_near(kept, directory, default) else []
    candidates += [folder for folder in default if not _leads_out(folder, directory)]
    place = next((folder for folder in candidates if _holds_records(folder)), None)
    return KeptRecords(place, kept if kept not in candidates else None)


def _default_folders(directory: Path | None) -> list[Path]:
    """The folders of records next to which the tuner makes runs/NAME or NAME, and the folder in the working folder."""
    if directory is None:
        return [Path(DATA)]
    run = directory.resolve()
    return [directory / DATA, run.parent.parent / DATA, run.parent / DATA, Path(DATA)]


def _is_near(kept: Path, directory: Path | None, default: Sequence[Path]) -> bool:
    """Whether `kept` lies in the run's folder or in the working folder, or is one of the `default` folders.

    The text of the path decides first, because even looking at a path may already contact another machine.
    """
    near = [Path.cwd(), *([directory.absolute(), directory.resolve()] if directory else [])]
    path = Path(os.path.abspath(kept))
    if path not in default and not any(path.is_relative_to(folder) for folder in near):
        return False
    return not _leads_out(path, directory)


def _leads_out(folder: Path, directory: Path | None) -> bool:
    """Whether `folder` lies in the run's `directory`, but a link on its path leads out of it."""
    if directory is None:
        return False
    run = directory.resolve()
    path = Path(os.path.abspath(folder))
    inside = path.is_relative_to(run) or path.is_relative_to(directory.absolute())
    try:
        return inside and not path.resolve().is_relative_to(run)
    except (OSError, RuntimeError, ValueError):  # a ring of links, or a zero byte
        return True


def _holds_records(folder: Path) -> bool:
    """Whether the folder has files of records."""
    try:
        return folder.is_dir() and any(folder.glob("*.parquet"))
    except (OSError, ValueError):  # a name too long or with a zero byte, or a directory that may not be read
        return False

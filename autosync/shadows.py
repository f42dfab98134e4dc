"""Files of the user that hide this project's packages: Python imports `trials.py` of an earlier folder instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from autosync.errors import AutosyncError

PACKAGES = ("autosync", "search_spaces", "trials")

ROOT = Path(__file__).resolve().parents[1]
"""The folder that this project is imported from."""


def check_path() -> None:
    """Raise `AutosyncError` if an entry of `sys.path` before this project's folder hides one of its packages.

    `python -m` puts the working directory there, and a script its own folder.
    """
    for entry in sys.path:
        folder = Path(entry or os.curdir)
        if _is_ours(folder):
            return
        check_folders([folder])


def check_folders(folders: Iterable[Path]) -> None:
    """Raise `AutosyncError` if one of `folders`, which Ray's processes import from first, hides a package."""
    for folder in folders:
        for name in PACKAGES:
            for file in (folder / f"{name}.py", folder / name / "__init__.py"):
                if not _is_ours(folder) and os.path.isfile(file):
                    raise AutosyncError(
                        f"{file.absolute()} hides the package {name!r} of autosync, because Python looks in its folder "
                        "first; rename it, or work in another folder."
                    )


def _is_ours(folder: Path) -> bool:
    """Whether `folder` is the one imported from, or another checkout, which hides nothing of itself."""
    return os.path.realpath(folder) == str(ROOT) or all(
        os.path.isfile(folder / name / "__init__.py") for name in PACKAGES
    )

"""Detects files that hide this project's packages: a `trials.py` in an earlier folder of the path, or another
distribution with a package of the same name.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from autosync.errors import AutosyncError

PACKAGES = ("autosync", "search_spaces", "trials")

ROOT = Path(__file__).resolve().parents[1]
"""The folder that this project is imported from."""

DISTRIBUTION = "autosync-dp"
"""The name of this project where packages are installed."""


def check_path() -> None:
    """Raise `AutosyncError` if an entry of `sys.path` before this project's folder hides one of its packages, or if
    another distribution has replaced one.

    `python -m` puts the working directory there, and a script its own folder.
    """
    for entry in sys.path:
        folder = Path(entry or os.curdir)
        if _is_ours(folder):
            break
        check_folders([folder])
    check_installed(ROOT)


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


def check_installed(folder: Path) -> None:
    """Raise `AutosyncError` if a package that a wheel installed in `folder` has another `__init__.py` by now.

    pip installs two distributions with a package of the same name into one folder: the later one replaces files of the
    earlier one. Without a wheel there, nothing is checked.
    """
    for file, digest in _digests(folder):
        path = folder / file
        if not path.is_file() or _digest(path) != digest:
            rivals = ", ".join(_rivals(folder, file)) or "another one"
            raise AutosyncError(
                f"{path} is not the file of autosync's distribution, {DISTRIBUTION}: a package of the same name was "
                f"installed over it ({rivals}); install {DISTRIBUTION} in an environment of its own."
            )


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    """The `__init__.py` of each package, and its digest when the wheel was installed in `folder`."""
    names = {f"{package}/__init__.py" for package in PACKAGES}
    for record in folder.glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as lines:
            yield from ((row[0], row[1]) for row in csv.reader(lines) if len(row) == 3 and row[0] in names)


def _digest(file: Path) -> str:
    """The SHA-256 of a file, as the RECORD of a wheel states it."""
    digest = hashlib.sha256(file.read_bytes()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _rivals(folder: Path, file: str) -> list[str]:
    """The names of the other distributions in `folder` that installed `file`."""
    from importlib.metadata import distributions  # slow to import, and only an error needs it

    return [
        distribution.name
        for distribution in distributions(path=[str(folder)])
        if distribution.name != DISTRIBUTION and any(str(path) == file for path in distribution.files or ())
    ]


def _is_ours(folder: Path) -> bool:
    """Whether `folder` is the folder that this project was imported from, or another checkout with all packages."""
    return os.path.realpath(folder) == str(ROOT) or all(
        os.path.isfile(folder / name / "__init__.py") for name in PACKAGES
    )

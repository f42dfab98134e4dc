"""Folders that the program creates are private for any umask; the user's own folders stay unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.files import inner_folder, make_folder, writable_folder
from autosync.runs.claim import claim_folder


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def permissions(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def claim(folder: Path) -> None:
    with claim_folder(folder):
        (folder / "run.json").touch()


MAKERS: dict[str, Callable[[Path], object]] = {
    "made": make_folder,
    "writable": writable_folder,
    "inner": lambda folder: inner_folder(folder.parent, folder.name),
    "a run's": claim,
    "a record store's": RecordStore.create,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_new_folder_is_its_owners_alone(tmp_path: Path, maker: str) -> None:
    MAKERS[maker](tmp_path / "new")
    assert permissions(tmp_path / "new") == 0o700


@pytest.mark.parametrize("maker", MAKERS)
def test_a_folder_of_the_users_keeps_its_permissions(tmp_path: Path, maker: str) -> None:
    (tmp_path / "shared").mkdir(0o755)
    MAKERS[maker](tmp_path / "shared")
    assert permissions(tmp_path / "shared") == 0o755

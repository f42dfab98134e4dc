"""Files of the user that have the name of a package of autosync."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.errors import AutosyncError
from autosync.shadows import ROOT, check_folders, check_path
from trials.workers.local_ray import RayStart, start_ray

MODULE = ("-m", "autosync")

SCRIPT = ("-c", "import sys; sys.path[0] = '/nowhere'; from autosync.commands import main; sys.exit(main())")
"""The installed script: its own folder is the first that Python imports from, not the working directory."""


def ran(folder: Path, how: tuple[str, ...], *arguments: str) -> tuple[int, str]:
    """Exit status and complaint of the command in `folder`, where this checkout stands in for an installation."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *how, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def shadow(folder: Path, file: str) -> Path:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("raise AssertionError('the file of the user was imported')")
    return folder / file


@pytest.mark.parametrize("file", ["trials.py", "search_spaces.py", "trials/__init__.py", "search_spaces/__init__.py"])
@pytest.mark.parametrize("arguments", [("tune", "--model", "mlp"), ("train", "--help"), ("runs", "--help"), ()])
def test_a_file_that_hides_a_package_is_named(tmp_path: Path, file: str, arguments: tuple[str, ...]) -> None:
    hiding = shadow(tmp_path, file)
    name = file.partition("/")[0].removesuffix(".py")
    assert ran(tmp_path, MODULE, *arguments) == (
        2,
        f"autosync: {hiding} hides the package {name!r} of autosync, because Python looks in its folder first; rename "
        "it, or work in another folder.\n",
    )


@pytest.mark.parametrize("file", ["trials.py", "search_spaces.py", "autosync.py", "autosync/__init__.py"])
def test_the_installed_command_refuses_it_where_workers_would_import_it(tmp_path: Path, file: str) -> None:
    hiding = shadow(tmp_path, file)
    status, told = ran(tmp_path, SCRIPT, "tune", "--model", "mlp")
    assert status == 2
    assert told.startswith(f"autosync: {hiding} hides the package ")
    assert ran(tmp_path, SCRIPT, "runs", "--help")[0] == 0


@pytest.mark.parametrize("folder", ["trials", "search_spaces", "autosync"])
def test_a_folder_that_is_no_package_hides_nothing(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "notes.py").write_text("")
    assert ran(tmp_path, MODULE, "runs", "--help") == (0, "")


def test_a_script_beside_such_a_file_is_told_when_it_asks_for_distribute(tmp_path: Path) -> None:
    hiding = shadow(tmp_path, "trials.py")
    (tmp_path / "mine.py").write_text("import autosync; autosync.distribute")
    status, told = ran(tmp_path, (str(tmp_path / "mine.py"),))
    assert status == 1
    assert f"AutosyncError: {hiding} hides the package 'trials'" in told.splitlines()[-1]


def test_a_folder_that_ray_ships_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "")
    hiding = shadow(tmp_path, "shipped/search_spaces.py")
    with pytest.raises(AutosyncError, match=f"^{hiding} hides the package 'search_spaces' of autosync"):
        start_ray(RayStart(working_dir=hiding.parent))


def test_this_checkout_and_another_one_hide_nothing(tmp_path: Path) -> None:
    check_path()
    for name in ("autosync", "search_spaces", "trials"):
        shadow(tmp_path, f"{name}/__init__.py")
    check_folders([ROOT, tmp_path])

"""Files of the user that have the name of an autosync package."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.errors import AutosyncError
from autosync.shadows import ROOT, check_folders, check_installed, check_path
from trials.workers.local_ray import RayStart, start_ray

MODULE = ("-m", "autosync")

SCRIPT = ("-c", "import sys; sys.path[0] = '/nowhere'; from autosync.commands import main; sys.exit(main())")
"""The installed script: Python imports from the script's own folder first, not from the working directory."""


def ran(folder: Path, how: tuple[str, ...], *arguments: str) -> tuple[int, str]:
    """Exit status and error output of the command in `folder`, with this checkout in the role of an installation."""
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


@pytest.mark.parametrize("program", ["import autosync; autosync.distribute", "import autosync.torch"])
def test_a_script_beside_such_a_file_is_told_when_it_asks_for_distribute(tmp_path: Path, program: str) -> None:
    hiding = shadow(tmp_path, "trials.py")
    (tmp_path / "mine.py").write_text(program)
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


def installed(folder: Path, distribution: str, *packages: str) -> None:
    """Install packages with one file each in `folder`, as pip does with a wheel, over existing files."""
    names = [f"{package}/__init__.py" for package in packages]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# of {distribution}")
    about = folder / f"{distribution.replace('-', '_')}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(f"# of {distribution}".encode()).digest()).decode().rstrip("=")
    (about / "RECORD").write_text("".join(f"{name},sha256={digest},9\n" for name in names))


def test_another_installed_distribution_that_replaced_a_package_is_named(tmp_path: Path) -> None:
    installed(tmp_path, "autosync-dp", "autosync", "search_spaces", "trials")
    check_installed(tmp_path)
    installed(tmp_path, "trials", "trials")
    with pytest.raises(AutosyncError) as refusal:
        check_installed(tmp_path)
    assert str(refusal.value) == (
        f"{tmp_path}/trials/__init__.py is not the file of autosync's distribution, autosync-dp: a package of the same "
        "name was installed over it (trials); install autosync-dp in an environment of its own."
    )


def test_a_package_that_an_uninstalled_distribution_took_along_is_named(tmp_path: Path) -> None:
    installed(tmp_path, "autosync-dp", "autosync", "search_spaces", "trials")
    (tmp_path / "search_spaces" / "__init__.py").unlink()
    with pytest.raises(AutosyncError, match=r"search_spaces/__init__\.py is not the file .* over it \(another one\)"):
        check_installed(tmp_path)

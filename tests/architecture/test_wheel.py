"""The wheel holds the library, the spaces and the trials, and no tests."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from setuptools import find_packages

from autosync.engine.core.registry import EXTRAS
from autosync.version import VERSION
from tests.architecture.source_tree import PACKAGES, ROOT, modules, project


def packages() -> list[str]:
    """Return the packages that setuptools would put into the wheel."""
    return list(find_packages(str(ROOT), include=project()["tool"]["setuptools"]["packages"]["find"]["include"]))


def test_the_wheel_holds_every_package_of_the_source() -> None:
    folders = {".".join(file.parent.parts) for file in modules(*PACKAGES)}
    assert set(packages()) == folders
    assert set(PACKAGES) <= folders


def test_the_wheel_holds_no_tests() -> None:
    assert [name for name in packages() if name.split(".")[0] not in PACKAGES] == []
    assert "tests" in find_packages(str(ROOT))


def test_the_wheel_holds_every_file_of_the_packages_that_is_no_source() -> None:
    declared = project()["tool"]["setuptools"]["package-data"]
    held = {
        file for name, patterns in declared.items() for pattern in patterns for file in folder_of(name).glob(pattern)
    }
    there = {
        file
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and file.suffix != ".py" and "__pycache__" not in file.parts
    }
    assert held == there
    assert there


def folder_of(package: str) -> Path:
    return ROOT.joinpath(*package.split("."))


def test_commands_named_in_the_project_exist() -> None:
    for target in project()["project"]["scripts"].values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def distributions(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that `requirements` name."""
    return {re.split(r"[\[<>=; ]", requirement)[0] for requirement in requirements}


def test_the_extra_of_an_engine_installs_its_packages_and_the_wheel_alone_does_not() -> None:
    about = project()["project"]
    for engine, packages in EXTRAS.items():
        extra = distributions(about["optional-dependencies"][engine])
        assert set(packages) <= extra
        assert extra & distributions(about["dependencies"]) == set()
        assert f"{about['name']}[{engine}," in " ".join(about["optional-dependencies"]["dev"])
    assert "torch" in distributions(about["dependencies"])


@pytest.mark.thorough
def test_the_wheel_runs_without_the_source(tmp_path: Path) -> None:
    """Libraries are those installed here; the program comes only from its wheel."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"autosync_dp-{VERSION}-")
    venv.create(tmp_path / "clean")
    place = {"base": str(tmp_path / "clean"), "platbase": str(tmp_path / "clean")}
    packages = Path(sysconfig.get_path("purelib", "venv", place))
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--target", packages, wheel], check=True, timeout=300)
    (about,) = packages.glob("autosync_dp-*.dist-info")
    required = PathDistribution(about).requires or []
    assert "tensorflow" not in distributions(line for line in required if "extra" not in line)
    assert distributions(line for line in required if 'extra == "tensorflow"' in line) >= set(EXTRAS["tensorflow"])
    # Python does not read a .pth in a folder that a .pth names, so the source installed here stays out.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    python = tmp_path / "clean" / "bin" / "python"
    for code in (
        "from autosync.commands import main; assert main(['--version']) == 0",
        "from autosync.commands import main; assert main(['cluster', 'schema']) == 0",
        "from autosync.simulator.saved import shipped_checkpoint; assert shipped_checkpoint('real')",
        "from search_spaces import load_space; load_space('bert')",
        "import autosync, pathlib; assert pathlib.Path(autosync.__file__).is_relative_to(pathlib.Path.cwd())",
    ):
        subprocess.run([python, "-c", code], cwd=tmp_path, check=True, timeout=120, env={})

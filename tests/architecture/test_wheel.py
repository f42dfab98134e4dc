"""What is installed: the library, the spaces and the trials, and nothing of the tests."""

from __future__ import annotations

import importlib
from pathlib import Path

from setuptools import find_packages

from tests.architecture.source_tree import PACKAGES, ROOT, modules, project


def packages() -> list[str]:
    """Packages that setuptools would put into the wheel."""
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
    held = {file for name, patterns in declared.items() for each in patterns for file in folder_of(name).glob(each)}
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

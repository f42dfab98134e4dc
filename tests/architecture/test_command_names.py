"""Every subcommand uses its own name in error messages."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest
import ray

import studies.commands
from autosync.commands import COMMANDS, main
from autosync.version import VERSION
from tests.architecture.source_tree import ROOT

ALIASES = {"autosync": "autosync", "autosync.tune": "tune"}
"""Modules that `python -m` runs, and the command of each."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_refuses_says_its_own_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--nonsense"]) == 2
    assert re.fullmatch(rf"{name}: No such option .*\n", capsys.readouterr().err, re.ASCII)


@pytest.mark.parametrize("name", studies.commands.COMMANDS)
def test_a_study_that_refuses_says_its_own_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert studies.commands.main([name, "--nonsense"]) == 2
    assert re.fullmatch(rf"{name}: No such option .*\n", capsys.readouterr().err, re.ASCII)


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err == "autosync: No such command 'nonsense'.\n"
    assert studies.commands.main(["nonsense"]) == 2
    assert capsys.readouterr().err == "studies: No such command 'nonsense'.\n"


@pytest.mark.parametrize("name", studies.commands.COMMANDS)
def test_a_command_that_has_moved_says_where_to(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--out", "anything"]) == 2
    assert capsys.readouterr().err == (
        f"autosync: `autosync {name}` is a study of autosync itself and not installed with it; in a checkout of the "
        f"project, run `python -m studies {name}`.\n"
    )


@pytest.mark.parametrize("group", [[], ["runs"]], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(group) == 2
    assert capsys.readouterr().err.startswith("Usage: ")


@pytest.mark.parametrize("group", [[], ["bench"]], ids=" ".join)
def test_a_group_of_studies_without_a_command_shows_its_help(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert studies.commands.main(group) == 2
    assert capsys.readouterr().err.startswith("Usage: python -m studies")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in COMMANDS)
    assert studies.commands.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in studies.commands.COMMANDS)


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"autosync, version {VERSION}"
    assert second.startswith(f"Python {platform.python_version()}, ray {ray.__version__}, torch ")


@pytest.mark.parametrize("module", ALIASES)
def test_modules_run_the_command(module: str) -> None:
    command = [sys.executable, "-m", module, "--nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert done.returncode == 2
    assert re.fullmatch(rf"{ALIASES[module]}: No such option .*\n", done.stderr, re.ASCII), done.stderr


def test_the_studies_run_as_a_module() -> None:
    command = [sys.executable, "-m", "studies", "evaluate", "--nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"evaluate: No such option .*\n", done.stderr, re.ASCII), done.stderr


def test_a_shell_completes_commands() -> None:
    asked = {"_AUTOSYNC_COMPLETE": "bash_complete", "COMP_WORDS": "autosync ex", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "autosync"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | asked, check=False)
    assert done.stdout.split() == ["plain,explain", "plain,export"]

"""Every subcommand calls itself by its own name where it refuses, and is found under its older names."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from autosync.commands import COMMANDS, main
from autosync.version import VERSION
from tests.architecture.source_tree import ROOT

ALIASES = {
    "autosync": "autosync",
    "autosync.bench": "bench",
    "autosync.dataset.import_autosync": "import",
    "autosync.explain": "explain",
    "autosync.report": "report",
    "autosync.runs": "runs",
    "autosync.simulator.evaluate": "evaluate",
    "autosync.simulator.pretrain": "pretrain",
    "autosync.train": "train",
    "autosync.tune": "tune",
    "trials": "trial",
    "trials.cluster": "cluster",
    "trials.collect": "collect",
    "trials.emulate": "emulate",
}
"""What runs by `python -m`, and the command that it is."""

WITHOUT_OLDER_NAME = {"profile"}
"""Commands that came after all of them were called `autosync`."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_refuses_says_its_own_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--nonsense"]) == 2
    assert re.fullmatch(rf"{name}: No such option .*\n", capsys.readouterr().err, re.ASCII)


def test_a_command_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert capsys.readouterr().err == "autosync: No such command 'nonsense'.\n"


@pytest.mark.parametrize("group", [[], ["runs"], ["bench"]], ids=" ".join)
def test_a_group_that_is_asked_nothing_shows_its_help(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(group) == 2
    assert capsys.readouterr().err.startswith("Usage: ")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {name} " in said for name in COMMANDS)


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"autosync, version {VERSION}\n"


def test_every_command_of_before_has_an_older_name() -> None:
    assert sorted([*ALIASES.values(), *WITHOUT_OLDER_NAME]) == sorted([*COMMANDS, "autosync"])


@pytest.mark.quick("autosync", "autosync.tune", "trials", "autosync.explain")
@pytest.mark.parametrize("module", ALIASES)
def test_older_names_run_the_command(module: str) -> None:
    command = [sys.executable, "-m", module, "--nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert done.returncode == 2
    assert re.fullmatch(rf"{ALIASES[module]}: No such option .*\n", done.stderr, re.ASCII), done.stderr


def test_a_shell_completes_commands() -> None:
    asked = {"_AUTOSYNC_COMPLETE": "bash_complete", "COMP_WORDS": "autosync ex", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "autosync"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | asked, check=False)
    assert done.stdout.split() == ["plain,explain"]

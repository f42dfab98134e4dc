"""Every command calls itself by its own name where it refuses."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

COMMANDS = sorted(
    str(file.parent.relative_to(ROOT)).replace("/", ".")
    for package in ("autosync", "trials")
    for file in (ROOT / package).rglob("__main__.py")
)


def test_all_commands_are_looked_at():
    assert {"autosync.tune", "autosync.train", "trials", "trials.cluster"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_refuses_says_its_own_name(command: str, capsys: pytest.CaptureFixture[str]):
    main = importlib.import_module(f"{command}.cli").main
    assert main(["--nonsense"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"{command.rpartition('.')[2]}: No such option .*\n", said, re.ASCII), said
    source = (Path(ROOT) / command.replace(".", "/") / "cli.py").read_text(encoding="utf-8")
    assert f'prog_name="python -m {command}"' in source

"""The example `own_cluster.py`, with the commands that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT
from tests.trials.emulate.clusters import needs_root


@needs_root
@pytest.mark.thorough
def test_the_example_searches_on_its_cluster_and_writes_a_report(name: str, tmp_path: Path) -> None:
    for file in ("own_cluster.py", "own_cluster.yaml", "torch_transformer.py"):
        shutil.copy(ROOT / "examples" / file, tmp_path)
    command("up", "own_cluster.yaml", "--name", name, folder=tmp_path)
    printed = command("exec", "--name", name, "--", sys.executable, "own_cluster.py", "4", folder=tmp_path)
    assert "   4/4  " in printed
    report = printed.splitlines()[-1].removeprefix("Its report: ")
    assert "<html" in (tmp_path / report).read_text(encoding="utf-8")


def command(*words: str, folder: Path) -> str:
    """The standard output of `autosync emulate`."""
    argv = [sys.executable, "-m", "autosync", "emulate", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Completions as shells request them: Click's protocol in real processes, and Click's script in a real bash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.search.registry import SEARCHERS
from autosync.tune.options import SIMULATORS
from autosync.zoo import ALIASES, MODELS
from search_spaces import menu_names, space_names
from tests.architecture.source_tree import ROOT
from tests.architecture.test_light_imports import SLOW

COMPLETE = """
import contextlib, io, json, os, sys
from autosync.commands import main
os.environ["_AUTOSYNC_COMPLETE"] = "bash_complete"
answers = []
for line in json.loads(sys.argv[1]):
    os.environ.update(COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1))
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main(line.split(" ")[1:])
    printed.flush()
    answers.append(printed.buffer.getvalue().decode().split())
print(json.dumps([answers, sorted({name.partition(".")[0] for name in sys.modules})]))
"""

NAMES = {
    "autosync tu": ["tune"],
    "autosync tune --simul": ["--simulator"],
    "autosync tune --model ": [*MODELS, *ALIASES],
    "autosync train --model resnet": ["resnet101", "resnet50", "resnet-mini", "resnet"],
    "autosync tune --searcher ": list(SEARCHERS),
    "autosync replay --searcher gp": ["gp", "gp-knobs"],
    "autosync tune --simulator ": list(SIMULATORS),
    "autosync tune --space ": space_names(),
    "autosync race --menu ": menu_names(),
    "autosync tune --without-rule bucket": ["bucket_order"],
    "autosync runs strategy ": list(BASELINES),
    "autosync runs show se": ["searched"],
    "autosync report searched tr": ["trained"],
    "autosync tune --cluster ": ["mine.yaml", "topologies/racks.yaml"],
    "autosync trial --cluster topologies/": ["topologies/racks.yaml"],
    "autosync cluster show m": ["mine.yaml"],
    "autosync --show-completion z": ["zsh"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    for name in ("runs/searched", "runs/trained", "topologies"):
        (folder / name).mkdir(parents=True)
    for name in ("mine.yaml", "topologies/racks.yaml", "notes.txt"):
        (folder / name).touch()
    return folder


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def test_names_are_completed_without_a_slow_package(place: Path) -> None:
    command = [sys.executable, "-c", COMPLETE, json.dumps([*NAMES])]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, check=True)
    answers, loaded = json.loads(done.stdout)
    wanted = [[f"plain,{name}" for name in names] for names in NAMES.values()]
    assert dict(zip(NAMES, answers, strict=True)) == dict(zip(NAMES, wanted, strict=True))
    assert set(loaded) & SLOW == set()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("autosync train --strategy ", "file"),
        ("autosync tune --data d", "file"),
        ("autosync tune --config ", "file"),
        ("autosync explain ", "file"),
        ("autosync runs show no", "dir"),
    ],
)
def test_the_shell_completes_files_itself(line: str, kind: str, place: Path) -> None:
    words = line.split(" ")
    asked = {"_AUTOSYNC_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "autosync"]
    done = subprocess.run(command, cwd=place, env=environment() | asked, capture_output=True, text=True, check=True)
    assert done.stdout == f"{kind},{words[-1]}\n"


def test_bash_completes_by_the_script_that_the_command_prints(place: Path) -> None:
    program = place / "bin" / "autosync"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m autosync "$@"\n')
    program.chmod(0o755)
    script = (
        "set -e\n"
        'eval "$(autosync --show-completion bash)"\n'
        "complete -p autosync\n"
        "COMP_WORDS=(autosync tune --searcher tpe) COMP_CWORD=3\n"
        "_autosync_completion autosync\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--norc", "-c", script]
    done = subprocess.run(command, cwd=place, env=environment() | {"PATH": path}, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["complete -o nosort -F _autosync_completion autosync", "tpe tpe-knobs"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_there_is_a_script_for_other_shells(shell: str) -> None:
    command = [sys.executable, "-m", "autosync", "--show-completion", shell]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    assert f"_AUTOSYNC_COMPLETE={shell}_complete" in done.stdout

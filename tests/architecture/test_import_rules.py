"""The import rules in pyproject.toml hold, name existing modules, and detect violations."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source_tree import PACKAGES, ROOT, modules, project

ROOMS = {
    *(f"autosync.{file.parts[1].removesuffix('.py')}" for file in modules("autosync") if file.parts[1][0] != "_"),
    "search_spaces",
    "studies",
    "trials",
}

TORCH = (
    "torch stays in its engine, the zoo, the simulator, where profiles are measured, and in the controller that learns"
)
TENSORFLOW = "TensorFlow and Keras stay in the TensorFlow engine and the zoo"
RAY = "Ray stays in tune, train, trials, pretraining, studies and the Ray Data reader"
MAY = {
    TENSORFLOW: {"autosync.engine", "autosync.zoo", "studies"},
    TORCH: {"autosync.engine", "autosync.torch", "autosync.zoo", "autosync.simulator", "autosync.profiling", "studies"},
    "matplotlib stays in the report and the studies": {"autosync.report", "studies"},
    "pyarrow stays in the dataset and the studies": {"autosync.dataset", "studies"},
    RAY: {"autosync.tune", "autosync.train", "trials", "autosync.pretraining", "studies", "autosync.dataset"},
    "Optuna and scikit-learn stay with the rivals": {"autosync.search", "studies"},
}
"""The packages that a rule about a framework exempts."""

VIOLATIONS = {
    "Data flows one way through the rooms": ("autosync/spec/codec.py", "from autosync.space import space"),
    "The core of the engines needs none of them": (
        "autosync/engine/core/versions.py",
        "import autosync.engine.tensorflow.arrays",
    ),
    TENSORFLOW: ("autosync/engine/core/versions.py", "import tensorflow"),
    TORCH: ("autosync/search/protocol.py", "import torch"),
    "matplotlib stays in the report and the studies": ("autosync/cost/bound.py", "import matplotlib"),
    "pyarrow stays in the dataset and the studies": ("autosync/layout/all_reduce/ring.py", "import pyarrow"),
    RAY: ("autosync/search/protocol.py", "import ray"),
    "The report reads what is on disk, and asks no framework": ("autosync/report/page.py", "import autosync.simulator"),
    "Optuna and scikit-learn stay with the rivals": ("autosync/cost/bound.py", "import optuna"),
    "The nouns need the standard library only": ("autosync/spec/codec.py", "import numpy"),
    "Controllers need NumPy only": ("autosync/control/fixed.py", "import scipy"),
    "Declared spaces import the language of spaces only": ("search_spaces/tiny.py", "import autosync.spec"),
}
"""A line that breaks each rule."""


def rules() -> dict[str, dict[str, Any]]:
    return {rule["name"]: rule for rule in project()["tool"]["importlinter"]["contracts"]}


def checked(folder: Path) -> tuple[int, dict[str, str]]:
    """Return the exit status of import-linter on the source in `folder`, and its verdict on each rule."""
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(
        [*command, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    said = {name: re.search(rf"^{re.escape(name)} (KEPT|BROKEN)", done.stdout, re.MULTILINE) for name in rules()}
    return done.returncode, {name: verdict[1] if verdict else done.stdout for name, verdict in said.items()}


def test_every_rule_is_kept() -> None:
    status, said = checked(ROOT)
    assert said == dict.fromkeys(rules(), "KEPT")
    assert status == 0


def test_every_rule_notices_a_line_that_breaks_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in (*PACKAGES, "studies"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, line in VIOLATIONS.values():
        with (tmp_path / file).open("a", encoding="utf-8") as source:
            source.write(f"\n{line}\n")
    status, said = checked(tmp_path)
    assert said == dict.fromkeys(rules(), "BROKEN")
    assert status != 0


def test_there_is_a_violation_for_every_rule() -> None:
    assert set(VIOLATIONS) == set(rules())


def test_every_room_has_its_layer() -> None:
    layers = rules()["Data flows one way through the rooms"]["layers"]
    assert {room for layer in layers for room in layer.split(" | ")} == ROOMS


@pytest.mark.parametrize("name", MAY)
def test_a_rule_about_a_framework_binds_every_other_room(name: str) -> None:
    rule = rules()[name]
    assert {module for module in rule["source_modules"] if module in ROOMS} == ROOMS - MAY[name]


def test_rules_name_only_what_exists() -> None:
    for rule in rules().values():
        for name in [*rule.get("source_modules", ()), *rule.get("forbidden_modules", ())]:
            assert importlib.util.find_spec(name) is not None, f"Rule {rule['name']!r} names {name!r}."

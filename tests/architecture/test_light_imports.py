"""What a person waits for at a prompt loads no heavy framework."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.architecture.source_tree import ROOT, modules

HEAVY = {"tensorflow", "keras", "keras_hub", "torch", "torch_geometric", "ray", "pyarrow", "pandas"}

LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*{each.partition(".")[0] for each in sys.modules})
"""

LIGHT = (
    "autosync",
    "autosync.commands.bench",
    "autosync.commands.explain",
    "autosync.commands.profile",
    "autosync.commands.report",
    "autosync.commands.runs",
    "autosync.train",
    "autosync.commands.train",
    "autosync.commands.tune",
    "autosync.commands.trial",
    "autosync.commands.cluster",
    "autosync.commands.collect",
    "autosync.commands.emulate",
    "autosync.engine.zoo",
    "autosync.search",
)
SPACES = [".".join(file.with_suffix("").parts) for file in modules("search_spaces") if file.stem != "__init__"]


def loaded_by(*names: str) -> set[str]:
    """Heavy packages found in a new process that imported the modules `names`."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split()) & HEAVY


def test_commands_the_zoo_and_the_searchers_load_no_heavy_framework() -> None:
    if loaded_by(*LIGHT):  # One process for all takes a tenth of the time; only a failure asks who it was.
        assert {name: found for name in LIGHT if (found := loaded_by(name))} == {}


def test_declared_spaces_load_no_heavy_framework() -> None:
    assert len(SPACES) >= 5
    assert loaded_by(*SPACES) == set()


def test_what_is_loaded_is_found_out() -> None:
    assert "pyarrow" in loaded_by("autosync.dataset")

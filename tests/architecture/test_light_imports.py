"""Modules that a user waits for at a prompt load no heavy framework."""

from __future__ import annotations

import os
import subprocess
import sys

from autosync.commands import COMMANDS
from tests.architecture.source_tree import ROOT, modules

HEAVY = {"tensorflow", "keras", "keras_hub", "torch", "torch_geometric", "ray", "pyarrow", "pandas"}

LOADED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*{name.partition(".")[0] for name in sys.modules})
"""

LIGHT = (
    "autosync",
    *(f"autosync.commands.{name}" for name in COMMANDS if name != "import"),
    "autosync.commands.import_dataset",
    "autosync.train",
    "autosync.zoo",
    "autosync.search",
)
SPACES = [".".join(file.with_suffix("").parts) for file in modules("search_spaces") if file.stem != "__init__"]


def packages_after(script: str, *names: str) -> set[str]:
    """Return the packages loaded in a new process that ran `script` with the arguments `names`."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def loaded_by(*names: str) -> set[str]:
    """Return the heavy packages loaded in a new process that imported the modules `names`."""
    return packages_after(LOADED, *names) & HEAVY


def test_the_package_itself_loads_no_library() -> None:
    libraries = packages_after(LOADED, "autosync", "autosync.tune") - packages_after(LOADED) - sys.stdlib_module_names
    assert libraries == {"autosync"}


def test_commands_the_zoo_and_the_searchers_load_no_heavy_framework() -> None:
    if loaded_by(*LIGHT):  # One process for all takes a tenth of the time; only a failure needs to know the module.
        assert {name: heavy for name in LIGHT if (heavy := loaded_by(name))} == {}


HELP = """
import sys
import click
from autosync.commands import COMMANDS, command

def helped(command, words):
    context = command.context_class(command, info_name=" ".join(words))
    command.get_help(context)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        helped(command.get_command(context, name), [*words, name])

names = sys.argv[1:] or list(COMMANDS)
for name in names:
    helped(command.get_command(click.Context(command), name), [name])
print(*{each.partition(".")[0] for each in sys.modules})
"""
SLOW = HEAVY | {"matplotlib", "scipy", "sklearn", "optuna", "jinja2", "jsonschema"}
"""Packages that take a tenth of a second of processor time or more."""


def loaded_by_help(*names: str) -> set[str]:
    """Return the slow packages loaded in a new process that built the help of commands (default: all) and their
    subcommands.
    """
    return packages_after(HELP, *names) & SLOW


def test_no_help_loads_a_slow_package() -> None:
    if loaded_by_help():
        assert {name: slow for name in COMMANDS if (slow := loaded_by_help(name))} == {}


def test_names_that_help_states_for_a_slow_package_are_those_of_the_package() -> None:
    from autosync.commands import pretrain
    from autosync.simulator import NETWORKS
    from studies.commands import evaluate
    from studies.evaluation import EXPERIMENTS

    assert tuple(NETWORKS) == pretrain.NETWORKS
    assert evaluate.EXPERIMENTS == EXPERIMENTS


def test_declared_spaces_load_no_heavy_framework() -> None:
    assert len(SPACES) >= 5
    assert loaded_by(*SPACES) == set()


def test_a_loaded_package_is_detected() -> None:
    assert "pyarrow" in loaded_by("autosync.dataset")

"""A process imports a model from a folder, or from text that another process sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT
from trials.workers.import_places import TAKEN, ModuleText, folder_of_texts, places_in

TEXT = """
def build():
    return 1


def fail():
    raise ValueError("on purpose")
"""

PROCESS = f"""
import inspect, traceback
from trials.workers.import_places import ModuleText, import_from

import_from([ModuleText({TAKEN!r}, {TEXT!r}), "/nowhere"])
import {TAKEN}, sys

assert sys.path[0] == "/nowhere"
print({TAKEN}.build(), inspect.getsource({TAKEN}.build).splitlines()[0])
try:
    {TAKEN}.fail()
except ValueError:
    print(traceback.format_exc().splitlines()[-2].strip())
"""


def test_a_process_imports_a_module_from_text_and_shows_its_lines() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["1 def build():", 'raise ValueError("on purpose")'], done.stderr


def test_a_folder_with_a_copied_function_is_sent_with_its_text(tmp_path: Path) -> None:
    assert places_in(None) == ()
    assert places_in(tmp_path) == (str(tmp_path),)
    (tmp_path / f"{TAKEN}.py").write_text(TEXT)
    assert places_in(tmp_path) == (ModuleText(TAKEN, TEXT), str(tmp_path))


def test_a_new_process_gets_the_texts_in_a_folder_that_ends_with_it() -> None:
    with folder_of_texts((ModuleText(TAKEN, TEXT), "/nowhere")) as folder:
        assert (folder / f"{TAKEN}.py").read_text() == TEXT
    assert not folder.exists()

"""Modules that do more than declare a space or a menu when they are imported."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import search_spaces
from autosync.errors import SpaceError
from search_spaces import load_menu, load_space


@pytest.mark.parametrize("load", [load_space, load_menu])
@pytest.mark.parametrize(
    ("name", "source", "sentence"),
    [
        ("quits", "import sys\nsys.exit('bye')", r"importing 'quits' ended the process with sys\.exit; move the"),
        (
            "sleeps",
            "import time\ntime.sleep(1000)",
            r"importing it took over 0\.3 s; move slow code out of 'sleeps'",
        ),
        ("talks", "raise ValueError('x' * 20_000_000)", r"cannot be loaded: x{297}\."),
        ("silent", "raise ValueError", r"cannot be loaded: ValueError\."),
    ],
)
def test_a_module_that_does_not_declare_is_refused_in_a_sentence(
    load: Callable[[str], Any],
    name: str,
    source: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(search_spaces, "IMPORT_SECONDS", 0.3)
    with pytest.raises(SpaceError, match=sentence) as refused:
        load(f"{name}:SPACE")
    assert len(str(refused.value)) < 600
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    sys.modules.pop(name, None)

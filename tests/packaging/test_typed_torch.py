"""A type checker sees the types of `autosync.torch` in a user's script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT

SCRIPT = """
import torch
from torch import nn

import autosync.torch

module = nn.Linear(4, 2)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
autosync.torch.distribute(module, "strategy.json", cluster="cluster.yaml", optimizer=optimizer, timeout_seconds=60)
with autosync.torch.no_sync(module):
    module(torch.ones(1, 4)).sum().backward()
autosync.torch.clip_grad_norm_(module, 1.0)
autosync.torch.undistribute(module)
autosync.torch.distribute(module, 5)
autosync.torch.distribute(module, time_out=5)
"""

SETTINGS = """
[mypy]
strict = True
python_version = 3.10
follow_imports = silent
ignore_missing_imports = True
[mypy-torch.*,torch,ray.*,ray,numpy.*,numpy,scipy.*,pydantic.*,tensorflow.*,keras.*]
follow_imports = skip
"""


def test_a_script_type_checks_except_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", "script.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 2, done.stdout + done.stderr
    assert 'Argument 2 to "distribute" has incompatible type "int"' in errors[0]
    assert 'Unexpected keyword argument "time_out" for "distribute"' in errors[1]

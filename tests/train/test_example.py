"""The example for users runs and shows its claims: three strategies, one loss curve, one accuracy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture.source_tree import ROOT


@pytest.mark.thorough
def test_digits_are_learnt_alike_under_three_strategies() -> None:
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), "--epochs", "4"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    rows = {line[:26].strip(): line[26:].split() for line in done.stdout.splitlines()[2:]}
    assert set(rows) == {"one process, plain Keras", "all-reduce", "parameter servers", "mixture"}
    accuracies = {float(accuracy.rstrip("%")) for _, _, accuracy, _, _ in rows.values()}
    assert max(float(off) for *_, off, _ in rows.values()) < 1e-4
    assert min(accuracies) > 80
    assert max(accuracies) - min(accuracies) < 0.5

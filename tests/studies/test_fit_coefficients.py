"""The command that fits an engine's coefficients to records."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.commands.shell import run_command
from autosync.cost import Coefficients, ReplayCoefficients
from autosync.dataset import RecordStore
from studies.by_hand.fit_coefficients import command
from tests.studies.evaluation.made_up import records


def test_it_prints_coefficients_that_are_nearer_to_the_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = RecordStore.create(tmp_path)
    for record in records(12, 0)[:12]:
        slower = tuple(3 * seconds for seconds in record.step_seconds)
        store.append(replace(record, framework="pytorch", step_seconds=slower))
    assert run_command(command, [str(tmp_path), "--framework", "pytorch"], program="fit") == 0
    printed = " ".join(capsys.readouterr().out.split())
    for kind in (Coefficients, ReplayCoefficients):
        call = printed[printed.index(f" {kind.__name__}(") + 1 :].partition(")")[0] + ")"
        fitted = eval(call, {kind.__name__: kind})
        assert fitted != kind()
    errors = re.findall(r"others: ([0-9.]+) before, ([0-9.]+) fitted", printed)
    assert len(errors) == 2
    assert all(float(fitted) < float(before) for before, fitted in errors)

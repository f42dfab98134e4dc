"""The cluster file for the user's own machines, used for real."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.ray_up.machines import PROJECT, lacking
from tests.trials.emulate.clusters import remains


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.skipif(lacking() is not None, reason=lacking() or "")
def test_ray_up_on_machines_without_a_shared_file_system_runs_searches_and_ray_down_ends_it():
    script = subprocess.Popen(
        [sys.executable, "-m", "tests.ray_up.end_to_end"],
        cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    transcript, _ = script.communicate()
    assert script.returncode == 0, transcript
    assert transcript.count("Result:   ") == 2
    assert remains(f"rayup{script.pid}") == []


def test_a_machine_without_the_tools_is_one_sentence_and_status_77(monkeypatch, capsys):
    from tests.ray_up import end_to_end, machines

    monkeypatch.setattr(machines, "SYSTEM_PATH", "")
    assert end_to_end.main() == end_to_end.LACKING == 77
    complaint = capsys.readouterr().err
    assert complaint.startswith("ray up: ")
    assert complaint.count("\n") == 1

"""A slow local Ray is tried once more, and a Ray that cannot start gives a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray

from autosync.errors import ClusterError
from trials.workers.local_ray import RayStart, start_ray
from trials.workers.starting import check_temporary_folder

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup."


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Outcomes of attempts to start Ray, first to last; each attempt removes one."""
    outcomes: list[bool] = []

    class Context:
        dashboard_url = ""

    def started(**_: object) -> Context:
        if not outcomes.pop(0):
            raise Exception(SLOW)
        return Context()

    monkeypatch.setattr(ray, "init", started)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return outcomes


def test_a_slow_start_is_tried_once_more(attempts: list[bool]) -> None:
    attempts += [False, True]
    assert start_ray(RayStart()).startswith("Started a local Ray")
    assert attempts == []


def test_two_slow_starts_are_a_sentence(attempts: list[bool]) -> None:
    attempts += [False, False, True]
    with pytest.raises(ClusterError) as refusal:
        start_ray(RayStart())
    assert attempts == [True]
    told = str(refusal.value)
    assert told.startswith("Ray could not be started here in 2 attempts: ")
    assert "The current node timed out during startup" in told
    assert told.endswith("or check the logs in ray/session_latest/logs of TMPDIR.")
    assert "\n" not in told


def test_a_long_path_of_temporary_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 80)))
    with pytest.raises(ClusterError, match="Ray makes sockets in TMPDIR, whose path may have "):
        check_temporary_folder()
    monkeypatch.setenv("TMPDIR", "/tmp")
    check_temporary_folder()

"""Trials on clusters whose links change, with the phase of each step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Figure, LaterRate, RuntimeRecord
from tests import cases
from tests.trials.scripted import Script, SteppingClock, request
from trials.phases import VARIABLE, phases_here, read_begun, write_begun
from trials.trial import TrialSetup, run_trial

STARTED_AT = 1_700_000_000.0


@dataclass
class DatedClock(SteppingClock):
    """Steps of given seconds, in a trial that starts at a given time."""

    def timestamp(self) -> float:
        return STARTED_AT


def changing(*times: float) -> ClusterSpec:
    cluster = cases.local_cluster(2)
    later = tuple(LaterRate(time, Figure(0.1, "stated")) for time in times)
    return replace(cluster, links=tuple(replace(link, later=later) for link in cluster.links))


def played(cluster: ClusterSpec, seconds: list[float]) -> RuntimeRecord:
    script = Script([1.0] * 9)
    return run_trial(script, request(), TrialSetup(cases.mlp_model(), cluster, DatedClock(seconds)))


def test_a_record_says_which_phase_each_timed_step_began_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps warm up; the six timed ones start 1 to 6 s after the trial, and changes come later than planned."""
    file = tmp_path / "phases.json"
    write_begun(file, [STARTED_AT - 10, STARTED_AT + 2.5, STARTED_AT + 5])
    monkeypatch.setenv(VARIABLE, str(file))
    record = played(changing(13.0, 15.0, 1000.0), [1.0] * 9)
    assert (record.outcome, record.reason) == ("ok", "")
    assert record.phases == (0, 0, 1, 1, 2, 2)
    assert RuntimeRecord.from_json(record.to_json()) == record
    assert played(cases.local_cluster(2), [1.0] * 9).phases is None


def test_where_nobody_changes_links_no_phase_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert played(changing(13.0), [1.0] * 9).phases is None


def test_a_file_of_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "phases.json"
    monkeypatch.setenv(VARIABLE, str(file))
    write_begun(file, [1.0, 2.0])
    assert read_begun(file) == (1.0, 2.0)
    assert phases_here(changing(1.0), []) == ()
    for text, said in (("[1, 2]", "must be a JSON object"), ('{"begun": ["a"]}', "begun"), ("{}", "needs the field")):
        file.write_text(text, encoding="ascii")
        with pytest.raises(SpecError, match=said):
            phases_here(changing(1.0), [1.5])

"""The benchmarks of paced nodes run, and their results are complete; figures need an idle machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autosync.errors import SpecError
from studies.by_hand.bench_pace import BENCHMARKS
from studies.by_hand.pacing import alone, itself, shows, virtual
from studies.by_hand.pacing.pace_results import PaceResults
from tests.engine.worker_processes import REPOSITORY, quiet
from tests.trials.emulate.clusters import needs_root, remains

SESSIONS = {
    "alone": {"real", "rested", "paced"},
    "itself": {"real", "paced"},
    "shows": {"real", "paced", "bare"},
    "virtual": {"steady", "spread", "virtual"},
}
TURN = {"load_average": 0.5, "servers_seconds": [0.001, 0.0, 0.002, 0.001], "busy_share": 0.25}
LATE = {"pass_seconds": [0.15] * 3, "late_p50": 1e-4, "late_p99": 2e-3, "latest": 3e-3, "first_step": 6}


def run(name: str, out: Path) -> str:
    cluster = f"bp{os.getpid()}"
    command = [sys.executable, "-m", "studies.by_hand.bench_pace", name, "--quick", "--out", str(out)]
    done = subprocess.run(
        [*command, "--cluster-name", cluster],
        cwd=REPOSITORY,
        env=quiet(),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert remains(cluster) == []
    return done.stdout


@needs_root
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["alone"])  # the others take minutes, on their own cluster
def test_each_measures_all_it_was_asked_and_then_prints_the_same_without_measuring(name: str, tmp_path: Path) -> None:
    printed, file = run(name, tmp_path), tmp_path / f"{name}.json"
    document, asked = json.loads(file.read_text(encoding="utf-8")), BENCHMARKS[name].ASKED | BENCHMARKS[name].QUICK
    assert (document["benchmark"], document["asked"], document["complete"]) == (name, asked, True)
    (sitting,) = document["sittings"]
    assert sitting.keys() == {"host", "versions", "framework", "code", "begun_at", "load_average"}
    rows = document["rows"]
    assert {row["session"] for row in rows} == SESSIONS[name]
    assert len(rows) == len(SESSIONS[name]) * asked["rounds"] * asked.get("strategies", 2)
    for row in rows:
        assert min(row["step_seconds"]) > 0
        assert row["session"] in ("real", "rested") or "late_p99" in row or name == "virtual"
    assert "| `" in printed or "| late" in printed
    assert run(name, tmp_path) == printed
    assert json.loads(file.read_text(encoding="utf-8")) == document


def kept_of(name: str, path: Path, **asked: Any) -> PaceResults:
    kept = PaceResults(path, name, BENCHMARKS[name].ASKED | {"models": ["mlp"]} | asked)
    kept.sit()
    return kept


def test_measurements_are_in_the_file_at_once_and_the_same_question_resumes_there(tmp_path: Path) -> None:
    kept = kept_of("alone", tmp_path / "alone.json")
    kept.add(session="paced", round=0, **TURN)
    again = kept_of("alone", tmp_path / "alone.json")
    assert (again.has(session="paced", round=0), again.has(session="paced", round=1)) == (True, False)
    assert not again.complete
    assert "**Not complete.**" in again.head()
    again.end()
    assert PaceResults.read(tmp_path / "alone.json").complete
    with pytest.raises(SpecError, match=r"can resume only from its own file, but .* is of 'alone' with .*'rounds': 12"):
        kept_of("alone", tmp_path / "alone.json", rounds=3)


def test_the_table_of_pace_alone_says_what_was_to_be_and_whether_it_is(tmp_path: Path) -> None:
    kept = kept_of("alone", tmp_path / "alone.json")
    kept.note("mlp", gradient_bytes=8000, releases=5, replicas={alone.ALL: 4, alone.ONE: 1})
    kept.note("mlp", faults={alone.ONE: "no room"})
    for number in range(6):
        cell = {"model": "mlp", "strategy": alone.ALL, "round": number}
        kept.add(session="paced", step_seconds=[0.15, 0.153, 0.16], **cell, **TURN, **LATE)
        kept.add(session="real", step_seconds=[0.003] * 3, **cell, **TURN | {"servers_seconds": [0.0002] * 4})
        kept.add(session="rested", step_seconds=[0.004] * 3, **cell, **TURN | {"servers_seconds": [0.0004] * 4})
    _, table, fault = alone.tables(kept)
    assert fault == "one replica, which sends nothing could not run: no room"
    assert "| late, 99th percentile (ms) | 2.00 [2.00, 2.00] | < 5 | yes |" in table
    assert "| step over its pass (%) | 2.00 [2.00, 2.00] | ± 3 | yes |" in table
    assert "| processor, a replica (ms a step) | 1.00 [1.00, 1.00] | ≤ 2 | yes |" in table
    assert "| pacing's own, paced less after a pause (ms) | 0.60 [0.60, 0.60] |" in table
    assert "| of that each of 5 releases (ms) | 0.120 [0.120, 0.120] |" in table


def test_the_table_of_paced_against_itself_says_where_they_differ_and_what_a_pass_took(tmp_path: Path) -> None:
    kept = kept_of("itself", tmp_path / "itself.json")
    kept.note("mlp", pass_seconds=0.03, faults={"byteps": "no room"})
    for strategy, ratio in (("near", 1.04), ("far", 0.9)):
        for number in range(2):
            cell = {"model": "mlp", "strategy": strategy, "round": number}
            kept.add(session="real", step_seconds=[0.1], **cell, **TURN | {"servers_seconds": [0.04, 0.03]})
            kept.add(
                session="paced",
                step_seconds=[0.1 * ratio],
                **cell,
                **TURN | {"servers_seconds": [0.005, 0.005]},
                **LATE,
            )
    head, table, fault = itself.tables(kept)
    assert head == "mlp: a pass takes 30.0 ms by its profile"
    assert "| 1.040 [1.040, 1.040] | yes | 13 [13, 13] | 30.0 [30.0, 30.0] | 0.10, 2.00 |" in table
    assert "| 0.900 [0.900, 0.900] | no |" in table
    assert fault == "`byteps` could not run: no room"


def test_real_and_paced_stand_beside_each_other_and_no_figure_is_of_both(tmp_path: Path) -> None:
    kept = kept_of("shows", tmp_path / "shows.json")
    kept.note("mlp", pass_seconds=0.02, replicas=4, processors=2, faults={})
    seconds = {"real": (0.1, 0.2), "paced": (0.12, 0.36), "bare": (0.05, 0.14)}
    for session, (fast, slow) in seconds.items():
        for strategy, milliseconds in (("fast", fast), ("slow", slow)):
            kept.add(session=session, model="mlp", strategy=strategy, round=0, step_seconds=[milliseconds], **TURN)
    head, table, real, paced = shows.tables(kept)
    assert head == "mlp, a pass takes 40 ms real, 100 ms paced"
    assert table.splitlines()[2].startswith(
        "| `fast` | 100 [100, 100] | -10 [-10, -10] | 25 [25, 25] | 120 [120, 120] |"
    )
    assert "| 25 [25, 25] | 120 [120, 120] | 25 [25, 25] |" in table.splitlines()[2]
    assert real.startswith("- real: best `fast`; the second takes 2.00")
    assert paced.endswith("the worst 3.00 [3.00, 3.00]")


def test_virtual_seconds_of_a_trace_are_held_against_the_paced_ones_of_the_same_round(tmp_path: Path) -> None:
    kept = PaceResults(tmp_path / "virtual.json", "virtual", virtual.ASKED)
    kept.note("mlp", faults={})
    for number, ratio in enumerate((1.02, 1.04, 1.03)):
        cell = {"model": "mlp", "strategy": "ring", "round": number, "load_average": 0.1}
        kept.add(session="spread", step_seconds=[0.5, 0.5], **cell)
        kept.add(session="virtual", step_seconds=[0.5 * ratio, 0.5 * ratio], **cell)
    _, table = virtual.tables(kept)
    assert table.splitlines()[2] == "| `ring` | 1.00 [1.00, 1.00] | 1.03 [1.02, 1.04] | 1.030 [1.020, 1.040] | yes |"

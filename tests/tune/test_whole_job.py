"""The command as a person runs it: TensorFlow over Ray, in a process of its own, on the smallest model.

Each test also checks that no process is left behind.
"""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.dataset import RecordStore
from autosync.runs import result_schema
from autosync.search.verdict.looks import Looks
from autosync.spec import RuntimeRecord, Strategy, strategy_faults
from autosync.tune.curves import SCALARS
from tests.report.pages import seen
from tests.tune.jobs import Job, ended
from tests.tune.test_scalars import scalars_in

TRIALS, ROUNDS = 7, 2
SMALL = ("--model", "mlp", "--workers", "2", "--steps", "5", "--warmup", "2", "--rounds", str(ROUNDS))
COMMAND = (*SMALL, "--trials", str(TRIALS), "--out", "runs/one", "--data", "data", "--simulator", "analytic")

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def started(*arguments: str) -> Job:
        jobs.append(Job(tmp_path, *arguments))
        return jobs[-1]

    yield started
    for job in jobs:
        job.end()


def trials_of(directory: Path) -> list[RuntimeRecord]:
    """Records of the search proper, in order, without the finals."""
    records = RecordStore(directory / "data").read()
    return [record for record in records if record.sequence is not None or record.outcome == "lost"]


def check_complete(directory: Path) -> None:
    """Check that the run has its files, each trial once except for those timed again, and a strategy that fits the
    model.
    """
    records = RecordStore(directory / "data").read()
    counted = [record for record in trials_of(directory) if record.outcome != "lost"]
    assert len(counted) == TRIALS
    assert set(Counter(record.strategy.digest for record in counted if record.purpose != "remeasure").values()) == {1}
    result = json.loads((directory / "runs/one/result.json").read_text())
    assert result["trials"] == TRIALS
    strategy = Strategy.from_json(json.loads((directory / "runs/one/strategy.json").read_text()))
    assert strategy.digest == result["verdict"]["winner"]
    assert list(strategy_faults(strategy, records[0].model, records[0].cluster)) == []
    assert len({record.run for record in records}) == 1


def check_for_scripts_and_people(directory: Path) -> None:
    """Check the report, the rows for scripts, the result against its schema, and the scalars of the search and its
    trials.
    """
    run = directory / "runs/one"
    assert seen(run / "report.html").faults == []
    assert len(list(csv.DictReader((run / "trials.csv").open()))) == len(RecordStore(directory / "data").read())
    jsonschema.validate(json.loads((run / "result.json").read_text()), result_schema())
    (tune,) = (path for path in (run / "tune").iterdir() if path.is_dir())
    curves = scalars_in(tune)
    assert set(curves) == set(SCALARS)
    assert [step for step, _ in curves["search/best_step_seconds"]] == list(range(1, TRIALS + 1))
    for trial in (path for path in tune.iterdir() if path.is_dir()):
        names = set(scalars_in(trial))
        assert {"ray/tune/step_seconds", "ray/tune/best_step_seconds", "ray/tune/predicted_seconds"} <= names


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The directory of a finished search, and the search's output."""
    directory = tmp_path_factory.mktemp("finished")
    job = Job(directory, *COMMAND)
    yield directory, ended(job, 0)
    job.end()


def test_a_search_ends_with_a_strategy_a_result_and_every_record_on_disk(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    check_complete(directory)
    records = RecordStore(directory / "data").read()
    again = [record for record in records if record.sequence is None]
    assert {record.purpose for record in again} == {"remeasure"}
    assert [record.outcome for record in again] == ["ok"] * len(again)
    turns = Counter(Counter(record.strategy.digest for record in again).values())
    assert max(turns) <= Looks(ROUNDS).most
    assert sum(count for rounds, count in turns.items() if rounds > ROUNDS) in (0, 2), "the best two go on alone"
    purposes = [record.purpose for record in sorted(records, key=lambda record: record.started_at)[:TRIALS]]
    assert purposes[:3] == ["baseline"] * 3
    assert purposes[3:].count("search") == 2, "half of the trials after the first baselines"
    assert f"With --trials {TRIALS}, 5 baselines and at most 2 candidates are timed; 1 baseline is not" in printed
    why = json.loads((directory / "runs/one/result.json").read_text())["stopped_because"]
    assert why.startswith(f"All {TRIALS} trials have run. Not timed for lack of budget: ")
    assert why in printed
    assert len(list((directory / "data").iterdir())) == 1, "small files are compacted at the end"
    for number in range(1, TRIALS + 1):
        assert f"{number}/{TRIALS}  " in printed
    assert "Strategy: runs/one/strategy.json" in printed
    assert "Report:   runs/one/report.html" in printed
    check_for_scripts_and_people(directory)


@pytest.mark.thorough
def test_a_second_search_learns_from_the_first_and_is_guided_by_what_it_fits_beside_its_trials(
    start: Start, finished: tuple[Path, str], tmp_path: Path
) -> None:
    shutil.copytree(finished[0] / "data", tmp_path / "data")
    known = RecordStore(tmp_path / "data").read()
    baselines = different_strategies(BASELINES, known[0].model, known[0].cluster)
    more = ("--trials", str(len(baselines) + 5), "--rounds", "1", "--no-probe", "--data", "data", "--out", "runs/two")
    printed = ended(start(*SMALL, *more), 0)
    assert "ranked by the simulator 'auto'" in printed
    assert f"The simulator also learns from {len(known)} records of other runs: " in printed
    used = json.loads((tmp_path / "runs/two/earlier.json").read_text())["record_ids"]
    assert len(used) == len(known)
    searched = [trial for trial in trials_of(tmp_path) if trial.run.startswith("two-")]
    assert Counter(record.purpose for record in searched) == {"baseline": len(baselines), "search": 5}
    assert None not in {record.predicted_seconds for record in searched}


@pytest.mark.thorough
def test_a_worker_killed_costs_one_trial_and_after_ctrl_c_the_command_it_prints_completes_the_search(
    start: Start, tmp_path: Path
) -> None:
    job = start(*COMMAND)
    job.wait_for(f"   2/{TRIALS}")
    job.kill_one("ray::WorkerProcess")
    job.wait_for(f"   4/{TRIALS}")
    job.press_ctrl_c()
    printed = ended(job, 130)
    assert "Report:   runs/one/report.html" in printed
    kept = trials_of(tmp_path)
    lost = [record for record in kept if record.outcome == "lost"]
    assert len(lost) == 1
    assert "orker 0 on node0 has died" in lost[0].reason or "orker 1 on node0 has died" in lost[0].reason
    counted = len(kept) - len(lost)
    assert 4 <= counted < TRIALS
    assert f"Stopped after {counted} trials. The records of all trials are kept in data." in printed
    best = min((record for record in kept if record.outcome == "ok"), key=lambda record: record.median_seconds or 0.0)
    assert f"Best so far, timed once: {best.label} {best.strategy.digest[:8]} with " in printed
    again = printed.rpartition("Resume with: autosync tune ")[2]
    assert shlex.split(again) == [*COMMAND, "--resume"]
    printed = ended(start(*shlex.split(again)), 0)
    assert f"   {counted + 1}/{TRIALS}  " in printed
    check_complete(tmp_path)
    assert trials_of(tmp_path)[: len(kept)] == kept


@pytest.mark.thorough  # the back end's contract also tests this
def test_a_worker_killed_while_workers_start_is_made_up_for_and_told(start: Start, tmp_path: Path) -> None:
    job = start(*COMMAND)
    job.wait_until(lambda: bool(job.titled("ray::WorkerProcess")), "a worker")
    job.kill_one("ray::WorkerProcess")
    assert "on node0 has died. (" in ended(job, 0)
    assert "All processes were started once more." in job.output
    check_complete(tmp_path)


@pytest.mark.thorough
def test_ctrl_c_while_workers_start_ends_them(start: Start) -> None:
    job = start(*COMMAND)
    job.wait_for("Starting 2 worker processes")
    job.press_ctrl_c()
    ended(job, 130)
    assert job.complaint == ""


@pytest.mark.thorough  # the back end's contract tests the same error
def test_a_model_function_that_raises_is_one_sentence_with_its_error_and_place(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def model():\n    raise ValueError('no layers today')\n")
    job = start("--model", "mine:model", "--trials", "3", "--out", "runs/one", "--data", "data")
    ended(job, 2)
    assert job.complaint == (
        "tune: The function 'mine:model', called without arguments, failed: "
        "ValueError: no layers today (at mine.py:2).\n"
    )

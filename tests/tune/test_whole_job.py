"""The command as a person runs it: TensorFlow over Ray, in a process of its own, on the smallest model.

Each test also looks at what it leaves behind: no process may be.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord, Strategy, strategy_faults
from tests.tune.jobs import Job, ended

pytestmark = pytest.mark.timeout(200)

TRIALS, ROUNDS = 7, 2
SMALL = ("--model", "mlp", "--workers", "2", "--steps", "5", "--warmup", "2", "--rounds", str(ROUNDS))
COMMAND = (*SMALL, "--trials", str(TRIALS), "--out", "runs/one", "--data", "data")

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
    """Records of the search proper, in order."""
    return [each for each in RecordStore(directory / "data").read() if each.purpose != "remeasure"]


def check_complete(directory: Path) -> None:
    """The run has its files, all its trials, none of them twice, and a strategy that fits the model."""
    records = RecordStore(directory / "data").read()
    counted = [each for each in records if each.purpose != "remeasure" and each.outcome != "lost"]
    times = Counter(each.strategy.digest for each in counted)
    assert (len(times), set(times.values())) == (TRIALS, {1})
    result = json.loads((directory / "runs/one/result.json").read_text())
    assert result["trials"] == TRIALS
    strategy = Strategy.from_json(json.loads((directory / "runs/one/strategy.json").read_text()))
    assert strategy.digest == result["verdict"]["winner"]
    assert list(strategy_faults(strategy, records[0].model, records[0].cluster)) == []
    assert len({each.run for each in records}) == 1


def test_a_search_ends_with_a_strategy_a_result_and_every_record_on_disk(start: Start, tmp_path: Path) -> None:
    printed = ended(start(*COMMAND), 0)
    check_complete(tmp_path)
    records = RecordStore(tmp_path / "data").read()
    again = [each for each in records if each.purpose == "remeasure"]
    assert [each.outcome for each in again] == ["ok"] * len(again)
    assert Counter(Counter(each.strategy.digest for each in again).values()).keys() == {ROUNDS}
    assert len(list((tmp_path / "data").iterdir())) == 1, "small files are compacted at the end"
    for number in range(1, TRIALS + 1):
        assert f"{number}/{TRIALS}  " in printed
    assert "Strategy: runs/one/strategy.json" in printed


def test_a_worker_killed_in_mid_search_costs_one_trial_which_runs_again(start: Start, tmp_path: Path) -> None:
    job = start(*COMMAND)
    job.wait_for(f"   2/{TRIALS}")
    job.kill_one("ray::WorkerProcess")
    ended(job, 0)
    check_complete(tmp_path)
    lost = [each for each in trials_of(tmp_path) if each.outcome == "lost"]
    assert len(lost) == 1
    assert "orker 0 on node0 has died" in lost[0].reason or "orker 1 on node0 has died" in lost[0].reason
    assert [each.outcome for each in trials_of(tmp_path)][-2:] == ["ok", "ok"]


def test_ctrl_c_keeps_everything_and_the_command_it_prints_completes_the_search(start: Start, tmp_path: Path) -> None:
    job = start(*COMMAND)
    job.wait_for(f"   3/{TRIALS}")
    job.press_ctrl_c()
    printed = ended(job, 130)
    kept = trials_of(tmp_path)
    assert 3 <= len(kept) < TRIALS
    assert f"Stopped after {len(kept)} trials; all of them are kept in data." in printed
    best = min((each for each in kept if each.outcome == "ok"), key=lambda each: each.median_seconds or 0.0)
    assert f"Best so far, not re-measured: {best.label} {best.strategy.digest[:8]} with " in printed
    again = printed.rpartition("Go on with: python -m autosync.tune ")[2]
    assert shlex.split(again) == [*COMMAND, "--resume"]
    printed = ended(start(*shlex.split(again)), 0)
    assert f"   {len(kept) + 1}/{TRIALS}  " in printed
    check_complete(tmp_path)
    assert trials_of(tmp_path)[: len(kept)] == kept


def test_ctrl_c_while_workers_start_ends_them(start: Start) -> None:
    job = start(*COMMAND)
    job.wait_for("Starting 2 worker processes")
    job.press_ctrl_c()
    ended(job, 130)
    assert job.complaint == ""


def test_a_model_function_that_raises_is_one_sentence_with_its_error_and_place(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def model():\n    raise ValueError('no layers today')\n")
    job = start("--model", "mine:model", "--trials", "3", "--out", "runs/one", "--data", "data")
    ended(job, 2)
    assert job.complaint == (
        "autosync: The function 'mine:model', called without arguments, failed: "
        "ValueError: no layers today (at mine.py:2).\n"
    )

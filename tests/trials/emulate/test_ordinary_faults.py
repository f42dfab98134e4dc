"""Faults in an ordinary user's search, on nodes with real and with paced passes: reported and repaired."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord
from tests.trials.emulate.clusters import remains
from tests.trials.emulate.rootless import OrdinaryUser, ordinary_user
from tests.tune.jobs import Job, ended
from tests.tune.test_faults import SOON_MISSED

pytestmark = pytest.mark.thorough

TRIALS = 4
SMALL = (
    *("--model", "mlp", "--trials", str(TRIALS), "--rounds", "1", "--steps", "60", "--warmup", "2", "--no-probe"),
    *("--simulator", "analytic", "--emulate", "cluster.yaml", "--data", "data"),
)
COMMAND = (*SMALL, "--out", "runs/one")
STEPS_OF_100_MS = {"real": "link: 5mbit\n", "paced": "link: 1gbit\npace: {fixed: 100ms}\n"}

Start = Callable[..., Job]


@pytest.fixture(params=STEPS_OF_100_MS)
def user(request: pytest.FixtureRequest) -> Iterator[OrdinaryUser]:
    with ordinary_user() as user:
        text = f"{STEPS_OF_100_MS[request.param]}nodes: [{{count: 2}}]\n"
        (user.home / "cluster.yaml").write_text(text, encoding="utf-8")
        yield user


@pytest.fixture
def start(user: OrdinaryUser) -> Iterator[Start]:
    """Start the command as the user, of whose clusters and processes nothing may remain."""
    jobs: list[Job] = []

    def started(*arguments: str) -> Job:
        jobs.append(Job(user.home, *arguments, before=user.before))
        return jobs[-1]

    yield started
    try:
        assert user.left() == []
        names = [name for job in jobs for name in re.findall(r"autosync-(tune\d+)/token", job.output)]
        assert names
        assert [remain for name in names for remain in remains(name)] == []
    finally:
        for job in jobs:
            job.end()


def trials_of(user: OrdinaryUser) -> list[RuntimeRecord]:
    """Return the records of the search proper, in order."""
    records = RecordStore(user.home / "data").read()
    return [record for record in records if record.sequence is not None or record.outcome == "lost"]


def check_all_ran(user: OrdinaryUser) -> list[RuntimeRecord]:
    """Check that every trial brought one record that counts, owned by the user; return the lost records."""
    records = trials_of(user)
    counted = Counter(record.strategy.digest for record in records if record.outcome != "lost")
    assert (len(counted), set(counted.values())) == (TRIALS, {1})
    assert {path.stat().st_uid for path in (user.home / "data").iterdir()} == {user.number}
    return [record for record in records if record.outcome == "lost"]


def check_says_nothing_else(job: Job) -> None:
    """Check that neither Ray nor another process prints anything else."""
    assert job.complaint == ""
    assert "(raylet)" not in job.output


def test_a_worker_that_is_killed_costs_one_trial(user: OrdinaryUser, start: Start) -> None:
    job = start(*COMMAND)
    job.wait_for(f"   2/{TRIALS}")
    job.kill_one("ray::WorkerProcess")
    printed = ended(job, 0)
    (lost,) = check_all_ran(user)
    assert re.match(r"Worker [01] on node[01] has died\.", lost.reason[:1].upper() + lost.reason[1:])
    assert f"lost  {lost.reason}" in printed
    check_says_nothing_else(job)


def test_a_node_that_is_unplugged_costs_one_trial_and_is_waited_for(
    user: OrdinaryUser, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting, value in SOON_MISSED.items():
        monkeypatch.setenv(setting, value)
    job = start(*COMMAND, "--trial-time-limit", "15", "--node-wait", "120")
    job.wait_for(f"   2/{TRIALS}")
    (folder,) = user.clusters()
    for fault in ("unplug", "kill", "plug", "restart"):
        fault_of = ("python", "-m", "autosync", "emulate", "fault", fault, "node1")
        done = user.run(*fault_of, "--name", folder.name.removeprefix("autosync-"))
        assert (done.returncode, done.stderr) == (0, "")
        if fault == "unplug":
            job.wait_for("Waiting up to 120 s for a node to return or to join ...")
    printed = ended(job, 0)
    lost = check_all_ran(user)
    assert [record.reason for record in lost if "node1 at 10.77.0.2 has left the cluster" in record.reason]
    assert all(f"lost  {record.reason}" in printed for record in lost)
    check_says_nothing_else(job)


def test_ctrl_c_leaves_nothing_and_the_command_it_prints_goes_on(user: OrdinaryUser, start: Start) -> None:
    job = start(*COMMAND)
    job.wait_for(f"   2/{TRIALS}")
    job.press_ctrl_c()
    printed = ended(job, 130)
    check_says_nothing_else(job)
    assert user.left() == []
    kept = trials_of(user)
    assert len(kept) >= 2
    assert f"Stopped after {len(kept)} trials. The records of all trials are kept in data." in printed
    again = shlex.split(printed.rpartition("Resume with: autosync tune ")[2])
    assert again == [*COMMAND, "--resume"]
    ended(start(*again), 0)
    assert check_all_ran(user) == []
    assert trials_of(user)[: len(kept)] == kept


def test_a_full_disk_ends_a_search_in_a_sentence_and_once_it_is_freed_the_search_goes_on(
    user: OrdinaryUser, start: Start
) -> None:
    with _small_disk(user, user.home / "small") as disk:
        command = (*SMALL, "--out", "small/one")
        job = start(*command)
        job.wait_for(f"   2/{TRIALS}")
        _fill(disk / "filler")
        assert job.status() == 2, job.output + job.complaint
        assert job.left_behind() == []
        why = "No space left on device; free the disk, and add --resume to continue"
        assert re.fullmatch(rf"tune: small/one/\S+ cannot be written: {why}\.\n", job.complaint)
        assert "(raylet)" not in job.output
        assert user.left() == []
        kept = trials_of(user)
        assert len(kept) >= 2
        (disk / "filler").unlink()
        ended(start(*command, "--resume"), 0)
        assert check_all_ran(user) == []
        assert trials_of(user)[: len(kept)] == kept


@contextmanager
def _small_disk(user: OrdinaryUser, folder: Path) -> Iterator[Path]:
    """A disk of 2 MB at `folder`, owned by the user. Skips if none can be mounted."""
    if not user.before:
        pytest.skip("A disk is mounted for a user by root; this is not root.")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=2m,mode=755,uid={user.number}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(b"x" * 4096)

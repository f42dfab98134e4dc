"""A guard ends all descendants of a killed process, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tune.jobs import Job

SECONDS = 20.0
"""Seconds within which all remains of a killed process must be gone."""

PROGRAM = """
import os, subprocess, sys, time
from trials.guard import Guard, guard_of_this_process, guarding

def started(*command, **options):
    options.setdefault("stdout", subprocess.DEVNULL)
    process = subprocess.Popen(command, **options)
    print(process.pid, flush=True)
    return process

def wait():
    print("ready", flush=True)
    time.sleep(600)

"""

Start = Callable[[str], tuple[subprocess.Popen[str], list[int]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Run a program until it waits; return the process and the numbers it has printed."""
    processes: list[subprocess.Popen[str]] = []
    numbers: list[int] = []

    def run(code: str) -> tuple[subprocess.Popen[str], list[int]]:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM + code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        processes.append(process)
        printed: list[int] = []
        while (line := process.stdout.readline().strip()) not in ("ready", ""):
            printed.append(int(line))
        numbers.extend(printed)
        return process, printed

    yield run
    for process in processes:
        process.kill()
        process.communicate()
    for pid in numbers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def gone_in_time(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


def test_a_kill_ends_what_was_started_inside_wherever_it_has_gone_and_nothing_outside(start: Start) -> None:
    killed, (outside, child, grandchild) = start(
        "started('sleep', '600')\n"
        "with guard_of_this_process().marks():\n"
        "    shell = started('sh', '-c', 'setsid sleep 600 & echo $!; exec sleep 600', stdout=None)\n"
        "time.sleep(0.5)\n"
        "wait()"
    )
    killed.kill()
    assert gone_in_time(lambda: not lives(child) and not lives(grandchild))
    assert lives(outside)


def test_a_kill_at_once_is_noticed_too(start: Start) -> None:
    """The kill may come before the guard even runs."""
    killed, (child,) = start(
        "guard = Guard()\nwith guard.marks():\n    started('sleep', '600')\nos.kill(os.getpid(), 9)"
    )
    assert killed.wait(SECONDS) == -signal.SIGKILL
    assert gone_in_time(lambda: not lives(child))


def test_the_last_command_of_a_killed_process_is_run(start: Start, tmp_path: Path) -> None:
    killed, (child,) = start(
        f"with guarding(then=['sh', '-c', 'pwd > {tmp_path}/done']):\n    started('sleep', '600')\n    wait()"
    )
    killed.kill()
    done = tmp_path / "done"
    assert gone_in_time(lambda: done.exists() and done.read_text() != "")
    assert not lives(child)
    assert done.read_text().strip() == str(Path(__file__).resolve().parents[2]), "so that it can import this package"


def test_a_guard_that_has_ended_touches_nothing(start: Start, tmp_path: Path) -> None:
    killed, (child,) = start(f"with guarding(then=['touch', '{tmp_path}/done']):\n    started('sleep', '600')\nwait()")
    killed.kill()
    time.sleep(2.0)  # twice as long as a guard takes to look
    assert lives(child)
    assert not (tmp_path / "done").exists()


def test_guards_leave_each_other_to_tidy_up(start: Start, tmp_path: Path) -> None:
    """The outer of two commands, which started the inner, is killed; the inner's last command still runs."""
    inner = f"{PROGRAM}\nwith guarding(then=['touch', '{tmp_path}/done']):\n    time.sleep(600)"
    killed, (child,) = start(
        f"with guarding():\n    started(sys.executable, '-c', {inner!r})\n    time.sleep(1)\n    wait()"
    )
    killed.kill()
    assert gone_in_time((tmp_path / "done").exists)
    assert not lives(child)


def test_the_environment_is_as_before_outside() -> None:
    before = dict(os.environ)
    code = (
        PROGRAM
        + "before = dict(os.environ)\nwith guarding():\n    assert os.environ != before\nprint(os.environ == before)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=before)
    assert said.stdout == "True\n"


def test_a_kill_of_the_guard_too_ends_what_was_started(start: Start, tmp_path: Path) -> None:
    killed, (guard, child, grandchild) = start(
        f"guard = Guard(then=['touch', '{tmp_path}/done'])\nprint(guard._process.pid)\n"
        "with guard.marks():\n    started('sh', '-c', 'setsid sleep 600 & echo $!; exec sleep 600', stdout=None)\n"
        "time.sleep(0.5)\nwait()"
    )
    os.kill(guard, signal.SIGKILL)
    time.sleep(2.0)  # twice as long as a guard takes to look
    assert lives(child)
    killed.kill()
    assert gone_in_time(lambda: not lives(child) and not lives(grandchild))
    assert gone_in_time((tmp_path / "done").exists)


def test_a_new_guard_after_a_killed_one_leaves_alone_what_the_old_one_has_marked(start: Start) -> None:
    _, (child,) = start(
        "guard = guard_of_this_process()\nwith guard.marks():\n    started('sleep', '600')\n"
        "guard._process.kill()\nguard._process.wait()\ndel guard\n"
        "assert guard_of_this_process().runs()\nimport gc\ngc.collect()\nwait()"
    )
    time.sleep(3.0)
    assert lives(child)


@pytest.mark.thorough
@pytest.mark.parametrize("with_its_guard", [False, True])
def test_nothing_is_left_of_a_killed_process_that_has_started_ray(tmp_path: Path, with_its_guard: bool) -> None:
    """Dashboard, agents and a worker in the middle of a call end, wherever Ray has put them."""
    job = Job(tmp_path, module="tests.trials.holding_ray")
    try:
        job.wait_for("Ray is there.")
        assert len(job.processes()) > 10
        guards = [pid for pid in job.processes() if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(guards) == 1
        if with_its_guard:
            os.kill(guards[0], signal.SIGKILL)
        job.kill()
        assert job.left_behind(SECONDS) == []
    finally:
        job.end()

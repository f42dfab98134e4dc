"""Nothing remains after a command and its guard have both been killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.trials.emulate.clusters import needs_root, remains
from trials.emulate.network import processes_in
from trials.emulate.processes import Process
from trials.emulate.state import read_state

pytestmark = needs_root

ROOT = Path(__file__).parents[3]
SECONDS = 20.0

PROGRAM = """
import sys
from trials.cluster.racks import star_of
from trials.emulate import emulated, run_inside
with emulated(sys.argv[1], star_of(2, 1.0), start_ray=False) as made:
    print("up", flush=True)
    run_inside(made.hosts[1], ["sh", "-c", "setsid sleep 600 & exec sleep 600"])
"""


def started(*words: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, env=env)


def children(pid: int, part: str) -> list[int]:
    """Return the children of the process whose command line contains `part`."""
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and part in (folder / "cmdline").read_bytes().decode(errors="replace"):
                parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
                pids += [int(folder.name)] if parent == pid else []
        except OSError:
            continue  # it has ended
    return pids


def in_time(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


def kill(command: subprocess.Popen[str], *others: int) -> None:
    for pid in (*others, command.pid):
        os.kill(pid, signal.SIGKILL)
    command.communicate()


def test_a_cluster_made_for_a_block_goes_although_its_guard_was_killed_too(name: str) -> None:
    command = started("-c", PROGRAM, name)
    assert command.stdout is not None
    assert command.stdout.readline() == "up\n"
    (guard,) = children(command.pid, "guard.py")
    kill(command, guard)
    assert in_time(lambda: remains(name) == []), remains(name)


def test_its_processes_go_although_both_guards_were_killed(name: str) -> None:
    command = started("-c", PROGRAM, name)
    assert command.stdout is not None
    assert command.stdout.readline() == "up\n"
    state = read_state(name)
    assert state is not None
    assert in_time(lambda: len(processes_in(state.namespaces[2])) >= 3)
    kill(command, *children(command.pid, "guard.py"), *children(command.pid, "AUTOSYNC_SECOND"))
    assert in_time(lambda: not any(processes_in(namespace) for namespace in state.namespaces))


def test_a_command_on_a_node_goes_and_the_cluster_stays(name: str) -> None:
    made = started("-m", "autosync", "emulate", "up", "--nodes", "2", "--no-ray", "--name", name)
    made.communicate(timeout=60)
    words = ["-m", "autosync", "emulate", "exec", "--name", name, "--", "sh", "-c", "echo $$; exec sleep 600"]
    command = started(*words)
    assert command.stdout is not None
    assert command.stdout.readline().strip().isdecimal()
    state = read_state(name)
    assert state is not None
    init = state.processes["host0"]
    running = [process for process in processes_in(state.namespaces[1]) if process != init]
    assert len(running) == 1
    kill(command, *children(command.pid, "guard.py"))
    assert in_time(lambda: not running[0].runs())
    assert init.runs()
    assert isinstance(init, Process)

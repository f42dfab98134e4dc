"""Two commands on one emulated cluster, a command running on it, and Ctrl-C while it is being made."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autosync.commands.emulate import main
from autosync.errors import ClusterError
from tests.trials.emulate.clusters import needs_root, remains, two_racks
from trials.emulate import emulated, find, up
from trials.emulate.lifecycle import down
from trials.emulate.state import State, folder_of, lock_folder, read_state, write_state

pytestmark = needs_root

ROOT = Path(__file__).parents[3]


def command(*arguments: str, **popen: object) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-m", "autosync", "emulate", *arguments]
    return subprocess.Popen(words, text=True, env=env, **(pipes | popen))  # type: ignore[call-overload,no-any-return]


def test_with_several_ups_at_once_the_first_makes_it_and_the_others_destroy_nothing(name: str) -> None:
    started = [command("up", "--nodes", "2", "--no-ray", "--name", name) for _ in range(4)]
    results = [(*process.communicate(timeout=120), process.returncode) for process in started]
    made = [out for out, _, status in results if status == 0]
    assert made, results
    for out, err, status in results:
        assert (status == 0) != (
            status == 2 and ("Another command" in err or "is up already" in err or "was not made by this" in err)
        ), (out, err, status)
    cluster = find(name)
    assert cluster is not None
    assert all(host.runs() for host in cluster.hosts)


def test_up_leaves_alone_what_another_up_is_making(name: str) -> None:
    """The other `up` has its folder, its lock and an incomplete state."""
    folder = folder_of(name)
    folder.mkdir(mode=0o700)
    with lock_folder(folder):
        write_state(State(name, two_racks(), starts_ray=False, namespaces=(f"as-{name}-0",)))
        with pytest.raises(ClusterError, match="Another command is making or removing"):
            up(name, two_racks(), start_ray=False)
        with pytest.raises(ClusterError, match="Another command is making or removing"), emulated(name, two_racks()):
            pass
        assert read_state(name) is not None
        assert down(name, if_orphaned=True) is False


def test_a_cluster_for_a_block_does_not_take_one_that_is_up(name: str) -> None:
    with emulated(name, two_racks(), start_ray=False) as first:
        with pytest.raises(ClusterError, match="is up already"), emulated(name, two_racks(), start_ray=False):
            pass
        assert all(host.runs() for host in first.hosts)


def test_down_asks_where_a_command_runs(name: str) -> None:
    assert main(["up", "--nodes", "2", "--no-ray", "--name", name]) == 0
    running = command("exec", "--name", name, "--node", "node1", "--", "sh", "-c", "echo there; exec sleep 600")
    assert running.stdout is not None
    assert running.stdout.readline() == "there\n"
    refused = command("down", "--name", name)
    complaint = " ".join(refused.communicate(timeout=60)[1].split())
    assert refused.returncode == 2
    assert complaint.startswith(f"emulate: Emulated cluster {name!r} is in use: `sleep 600` runs on it (process ")
    assert complaint.endswith(" and would end; give --yes to remove it.")
    assert answered("n", "down", "--name", name) == 130
    assert running.poll() is None
    assert find(name) is not None
    assert answered("y", "down", "--name", name) == 0
    assert running.wait(20) != 0
    running.communicate()
    assert remains(name) == []


def answered(answer: str, *arguments: str) -> int:
    """Return the exit status of the command at a terminal, where the question gets this answer."""
    ours, theirs = pty.openpty()
    try:
        process = command(*arguments, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.write(ours, f"{answer}\n".encode())
        return process.wait(60)
    finally:
        os.close(ours)
        os.close(theirs)


def test_down_with_yes_does_not_ask(name: str) -> None:
    with emulated(name, two_racks(), start_ray=False):
        refused = command("down", "--name", name)
        complaint = " ".join(refused.communicate(timeout=60)[1].split())
        assert refused.returncode == 2
        assert f"made it for itself (process {os.getpid()})" in complaint
        assert command("down", "--yes", "--name", name).wait(60) == 0
        assert remains(name) == []


@pytest.mark.parametrize("moment", ["folder", "namespaces", "hosts", "complete"])
def test_after_ctrl_c_in_up_the_sentence_is_true(name: str, moment: str) -> None:
    making = command("up", "--nodes", "6", "--no-ray", "--name", name, start_new_session=True)
    deadline = time.monotonic() + 60
    while not _reached(name, moment) and making.poll() is None:
        assert time.monotonic() < deadline
    os.killpg(making.pid, signal.SIGINT)
    said = " ".join(making.communicate(timeout=60)[1].split())
    assert "Traceback" not in said
    if making.returncode == 0:
        assert find(name) is not None  # `up` was faster
    elif "what had been made was removed" in said:
        assert (making.returncode, remains(name)) == (130, [])
    else:
        assert making.returncode == 130
        assert f"`autosync emulate down --name {name}` removes it" in said
        assert ("is up and stays" in said) == (find(name) is not None)


def _reached(name: str, moment: str) -> bool:
    try:
        state = read_state(name)
    except ClusterError:
        return False  # the state is just being written
    if state is None:
        return False
    namespaces = Path(f"/run/netns/as-{name}-0").exists()
    return {
        "folder": True,
        "namespaces": namespaces,
        "hosts": "host1" in state.processes,
        "complete": state.is_up,
    }[moment]

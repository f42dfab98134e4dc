"""Real networks and hosts without Ray: rates, addresses, isolation, signals, and clean removal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autosync.errors import ClusterError
from tests.trials.emulate.clusters import fewer_cores, needs_quotas, needs_root, remains, two_racks
from trials.cluster.racks import star_of
from trials.emulate import (
    Host,
    add_node,
    down,
    emulated,
    find,
    kill_node,
    restart_node,
    run_inside,
    set_link,
    start_inside,
    up,
)
from trials.emulate.lifecycle import agree_on_congestion_control
from trials.emulate.network import run_all
from trials.emulate.status import usage_of

EXEC = (sys.executable, "-m", "autosync", "emulate", "exec")

pytestmark = needs_root

ECHO = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
print("ready", flush=True)
connection, peer = listener.accept()
data = b""
while len(data) < 200_000:
    data += connection.recv(65536)
print(peer[0], len(data))
"""

SEND = """
import socket, sys
socket.create_connection((sys.argv[1], 5000), timeout=float(sys.argv[2])).sendall(bytes(200_000))
"""


def said(host: Host, *argv: str) -> str:
    """Return the output of `argv` in the host."""
    running = start_inside(host, argv, stdout=subprocess.PIPE, text=True)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    return str(printed)


def reaches(source: Host, target: Host, seconds: float = 20.0) -> bool:
    """True if 200 kB arrive, from the address that the source should have."""
    listening = start_inside(target, [sys.executable, "-c", ECHO, target.address], stdout=subprocess.PIPE, text=True)
    assert listening.stdout is not None
    assert listening.stdout.readline() == "ready\n"
    sending = start_inside(
        source, [sys.executable, "-c", SEND, target.address, str(seconds)], stderr=subprocess.DEVNULL
    )
    if sending.wait(60) != 0:
        listening.kill()
    printed, _ = listening.communicate(timeout=60)
    return bool(printed == f"{source.address} 200000\n")


def test_traffic_flows_at_rates_set_each_way_and_nothing_stays(name: str) -> None:
    with emulated(name, two_racks(), start_ray=False) as made:
        assert [host.address for host in made.hosts] == ["10.77.0.1", "10.77.0.2"]
        assert made.cluster.node("b").address == "10.77.0.2"
        assert reaches(*made.hosts)
        assert reaches(*made.hosts[::-1])
        switches = _queues(f"as-{name}-switch")
        assert _queues(f"as-{name}-0")["eth0"].startswith("tbf rate 200Mbit")
        assert _queues(f"as-{name}-1")["eth0"].startswith("tbf rate 300Mbit")
        assert switches["port0"].startswith("tbf rate 400Mbit")
        assert "tbf" not in switches["port1"]
        assert switches["trunk0a"].startswith("tbf rate 100Mbit")
        assert switches["trunk0b"].startswith("tbf rate 50Mbit")
    assert remains(name) == []


def _queues(namespace: str) -> dict[str, str]:
    """Return the queueing discipline of each interface, shortened, as the kernel reports it."""
    command = ["tc", "-s", "-n", namespace, "qdisc", "show"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines if line.startswith("qdisc")]
    return {word[word.index("dev") + 1]: " ".join([word[1], *word[word.index("root") + 3 :]]) for word in words}


def test_hosts_have_their_own_processes_home_and_ray_folder_and_share_the_rest(name: str, tmp_path: Path) -> None:
    with emulated(name, star_of(2, 1.0), start_ray=False) as made:
        first, second = made.hosts
        for folder in ("home", "ray", "tmp"):
            said(first, "touch", str(first.folder / folder / "mine"))
            assert said(second, "ls", str(first.folder / folder)) == ""
            assert said(first, "ls", str(first.folder / folder)) == "mine\n"
        assert said(first, "cat", "/proc/1/cmdline").endswith("/cat\0")  # the process reads the lifeline of the owner
        numbers = said(first, sys.executable, "-c", "import os; print(sum(n.isdecimal() for n in os.listdir('/proc')))")
        assert int(numbers) == 2
        (tmp_path / "shared").write_text("seen", encoding="utf-8")
        assert said(second, "cat", str(tmp_path / "shared")) == "seen"
        assert said(second, "pwd") == f"{Path.cwd()}\n"
        assert {agree_on_congestion_control(made.hosts)} == {said(first, "cat", _CONGESTION).strip()}


_CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"


def test_a_program_inside_knows_the_address_and_the_token_of_ray(name: str) -> None:
    with emulated(name, star_of(1, 1.0), start_ray=False) as made:
        (host,) = made.hosts
        lines = said(host, "env").splitlines()
        assert {f"RAY_AUTH_TOKEN_PATH={made.token_path}", "RAY_AUTH_MODE=token", "RAY_ADDRESS=10.77.0.1:6379"} <= {
            *lines
        }
        assert made.token_path.stat().st_mode & 0o777 == 0o600
        assert len(made.token_path.read_text(encoding="ascii")) == 64


@needs_quotas
def test_a_node_with_fewer_cores_has_a_quota_and_all_its_processes_are_under_it(name: str) -> None:
    with emulated(name, two_racks(cores=0.25), start_ray=False) as made:
        slow, fast = made.hosts
        group = slow.cores_quota_group
        assert group is not None
        assert fast.cores_quota_group is None
        old = group / "cpu.cfs_quota_us"
        quota = old.read_text(encoding="ascii") if old.exists() else (group / "cpu.max").read_text(encoding="ascii")
        assert quota.split()[0] == "5000"  # of the 20 000 microseconds of each period
        assert group.name in said(slow, "cat", "/proc/self/cgroup")
        assert group.name not in said(fast, "cat", "/proc/self/cgroup")
        running = start_inside(
            slow, ["cat", "/proc/self/cgroup"], within_quota=False, stdout=subprocess.PIPE, text=True
        )
        assert group.name not in running.communicate()[0]


def test_a_killed_node_is_wholly_gone_and_comes_back_alone(name: str) -> None:
    with emulated(name, star_of(2, 1.0), start_ray=False) as made:
        left_alone = start_inside(made.hosts[0], ["sleep", "600"])
        child = start_inside(made.hosts[1], ["sh", "-c", "sleep 600 & setsid sleep 600 & wait"])
        _until(lambda: usage_of(made.hosts[1]).processes == 4)
        kill_node(made, "node1")
        assert child.wait(20) == -signal.SIGKILL
        assert usage_of(made.hosts[1]).processes == 0
        with pytest.raises(ClusterError, match="Node 'node1' does not run; start it again"):
            start_inside(made.hosts[1], ["true"])
        assert left_alone.poll() is None
        made = restart_node(made, "node1")
        assert reaches(*made.hosts)
    assert left_alone.wait(20) == -signal.SIGKILL


def test_an_unplugged_node_is_cut_off_until_it_is_plugged_in(name: str) -> None:
    with emulated(name, star_of(2, 1.0), start_ray=False) as made:
        set_link(made, "node1", up=False)
        assert not reaches(*made.hosts, seconds=0.5)
        set_link(made, "node1", up=True)
        assert reaches(*made.hosts)


def test_a_node_that_joins_is_like_the_first_and_reached(name: str) -> None:
    with emulated(name, star_of(2, 0.2), start_ray=False) as made:
        larger = add_node(made)
        assert larger.cluster.digest == star_of(3, 0.2).digest
        assert reaches(larger.hosts[0], larger.hosts[2])
        assert _queues(f"as-{name}-2")["eth0"].startswith("tbf rate 200Mbit")
        assert find(name) == larger


def test_a_node_cannot_join_one_that_is_alone(name: str) -> None:
    with emulated(name, star_of(1, 1.0), start_ray=False) as made:
        with pytest.raises(ClusterError, match="A cluster of one node has no switch"):
            add_node(made)
        with pytest.raises(ClusterError, match="A cluster of one node has no link to plug or unplug"):
            set_link(made, "node0", up=False)


def test_signals_reach_the_program_inside_once_each_and_its_end_is_waited_for(name: str) -> None:
    """Signals come as from a terminal, which sends Ctrl-C to the whole group of the outer command."""
    inner = (
        "import signal, sys, time; got = []\n"
        "signal.signal(signal.SIGINT, lambda number, frame: got.append(number))\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))\n"
        "print('ready', flush=True)\n"
        "while signal.SIGTERM not in got: time.sleep(0.01)\n"
        "time.sleep(0.3); print(*got); sys.exit(7)"
    )
    with emulated(name, star_of(1, 1.0), start_ray=False):
        outer = subprocess.Popen(
            [*EXEC, "--name", name, "--", sys.executable, "-c", inner],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        os.killpg(outer.pid, signal.SIGINT)
        time.sleep(0.1)  # so that signals arrive in the order of sending
        os.killpg(outer.pid, signal.SIGTERM)
        printed, _ = outer.communicate(timeout=30)
        assert (outer.returncode, printed) == (7, "2 15\n")


def test_an_exit_status_comes_out_and_a_signal_shows_in_it_also_from_a_thread(name: str) -> None:
    with emulated(name, star_of(1, 1.0), start_ray=False) as made:
        (host,) = made.hosts
        assert run_inside(host, ["sh", "-c", "exit 3"]) == 3
        assert run_inside(host, ["sh", "-c", "kill -9 $$"]) == 137
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(run_inside(host, ["sh", "-c", "exit 4"])))
        thread.start()
        thread.join()
        assert statuses == [4]
        with pytest.raises(FileNotFoundError):
            run_inside(host, ["no-such-command"])
        assert subprocess.run(["cat", "/proc/self/comm"], capture_output=True, check=True).stdout == b"cat\n"


def test_a_cluster_cannot_be_removed_from_inside(name: str) -> None:
    with emulated(name, star_of(1, 1.0), start_ray=False) as made:
        command = [sys.executable, "-m", "autosync", "emulate", "down", "--name", name]
        inside = start_inside(made.hosts[0], command, stderr=subprocess.PIPE, text=True)
        _, complaint = inside.communicate(timeout=60)
        assert inside.returncode == 2
        assert "is made, shown and removed from outside; leave its host first." in complaint
        assert find(name) == made


def test_up_again_does_nothing_and_another_cluster_of_the_name_is_refused(name: str) -> None:
    told: list[str] = []
    made = up(name, star_of(2, 1.0), start_ray=False, say=told.append)
    assert told == []
    assert up(name, star_of(2, 1.0), start_ray=False, say=told.append) == made == find(name)
    assert told == [f"Emulated cluster {name!r} is up already; nothing was done."]
    for different, starts_ray in ((star_of(2, 0.5), False), (star_of(2, 1.0), True)):
        with pytest.raises(ClusterError, match="is up and differs from the requested one; take it down first"):
            up(name, different, start_ray=starts_ray)
    with pytest.raises(ClusterError, match="is up already; take it down first"), emulated(name, star_of(2, 1.0)):
        pass
    assert reaches(*made.hosts)
    assert down(name)
    assert not down(name)
    assert remains(name) == []


def test_a_namespace_that_was_there_before_is_refused_and_kept(name: str) -> None:
    theirs = f"as-{name}-1"
    run_all([["ip", "netns", "add", theirs]])
    try:
        with pytest.raises(ClusterError, match=f"Network namespace '{theirs}' exists and was not made by this command"):
            up(name, star_of(2, 1.0), start_ray=False)
        assert not down(name)
        assert remains(name) == [remain for remain in remains(name) if theirs in remain] != []
    finally:
        subprocess.run(["ip", "netns", "delete", theirs], check=True)


CRASHES = {
    "before its state is in a file": "lifecycle.write_state = lambda state: die()",
    "before its first host is in the file": "start = lifecycle.start_host\n"
    "lifecycle.start_host = lambda host: (start(host), die())",
    "with its hosts running": "lifecycle.agree_on_congestion_control = lambda hosts: die()",
    "before its network": "lifecycle.make_network = lambda wiring: die()",
}


@pytest.mark.parametrize("moment", CRASHES)
def test_the_remains_of_a_crash_are_removed_by_down_and_by_the_next_up(name: str, moment: str) -> None:
    code = (
        "import os, sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import lifecycle\n"
        "def die():\n    os.kill(os.getpid(), 9)\n"
        f"{CRASHES[moment]}\n"
        f"lifecycle.up(sys.argv[1], star_of(2, 1.0, cores={fewer_cores(0.5)}), start_ray=False)"
    )
    for remove in (True, False):
        crashed = subprocess.run([sys.executable, "-c", code, name], check=False)
        assert crashed.returncode == -signal.SIGKILL
        assert find(name) is None
        assert remains(name) != []
        if remove:
            assert down(name)
            assert remains(name) == []
    told: list[str] = []
    made = up(name, star_of(2, 1.0), start_ray=False, say=told.append)
    assert told == [f"The remains of {name!r} after a crash were removed first."]
    assert reaches(*made.hosts)


def test_ctrl_c_while_it_is_made_leaves_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trials.emulate.lifecycle.agree_on_congestion_control", lambda _: signal.raise_signal(2))
    with pytest.raises(KeyboardInterrupt):
        up(name, star_of(2, 1.0), start_ray=False)
    assert remains(name) == []


def test_a_request_to_end_leaves_nothing_either_while_it_is_made_or_when_it_is_up(name: str) -> None:
    code = (
        "import os, signal, sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import lifecycle\n"
        "end = lambda _: os.kill(os.getpid(), signal.SIGTERM)\n"
        "if sys.argv[2] == 'making':\n    lifecycle.agree_on_congestion_control = end\n"
        "with lifecycle.emulated(sys.argv[1], star_of(2, 1.0), start_ray=False):\n    end(0)"
    )
    for moment in ("making", "up"):
        assert subprocess.run([sys.executable, "-c", code, name, moment], check=False).returncode == 143
        assert remains(name) == []


def test_one_made_for_the_length_of_a_block_goes_with_a_process_that_is_killed_in_it(name: str) -> None:
    code = (
        "import sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import lifecycle, run_inside\n"
        f"with lifecycle.emulated(sys.argv[1], star_of(2, 1.0, cores={fewer_cores(0.5)}), start_ray=False) as made:\n"
        "    print('up', flush=True)\n"
        "    run_inside(made.hosts[1], ['sleep', '600'])"
    )
    with subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert find(name) is not None
        process.kill()
    check_gone(name)


def test_one_goes_with_a_process_that_is_killed_before_its_state_is_in_a_file(name: str) -> None:
    code = (
        "import os, sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import lifecycle\n"
        "lifecycle.write_state = lambda state: os.kill(os.getpid(), 9)\n"
        "with lifecycle.emulated(sys.argv[1], star_of(2, 1.0), start_ray=False):\n    pass"
    )
    assert subprocess.run([sys.executable, "-c", code, name], check=False).returncode == -signal.SIGKILL
    check_gone(name)


def check_gone(name: str) -> None:
    """Check that nothing remains after the time limit for processes of a killed command."""
    deadline = time.monotonic() + 20
    while (left := remains(name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_a_cluster_that_is_nobodys_or_a_living_process_s_is_no_orphan(name: str) -> None:
    up(name, star_of(1, 1.0), start_ray=False)
    assert not down(name, if_orphaned=True)
    assert down(name)
    with emulated(name, star_of(1, 1.0), start_ray=False):
        assert not down(name, if_orphaned=True)


def test_a_command_on_a_node_goes_with_the_one_that_runs_it_there(name: str) -> None:
    with emulated(name, star_of(1, 1.0), start_ray=False):
        outer = subprocess.Popen(
            [*EXEC, "--name", name, "--", "sh", "-c", "echo $$; sleep 600"],
            stdout=subprocess.PIPE,
        )
        assert outer.stdout is not None
        outer.stdout.readline()
        outer.kill()
        outer.wait()
        outer.stdout.read()  # ends when no process is left that could write


def test_ignored_signals_stay_ignored(name: str) -> None:
    """Signals are ignored, as under nohup."""
    with emulated(name, star_of(1, 1.0), start_ray=False):
        inner = ["sh", "-c", "echo ready; sleep 0.5; echo done"]
        outer = subprocess.Popen(
            ["nohup", *EXEC, "--name", name, "--", *inner],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        outer.send_signal(signal.SIGHUP)
        assert outer.communicate(timeout=30)[0] == "done\n"
        assert outer.returncode == 0


def _until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)

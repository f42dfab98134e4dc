"""Emulated clusters whose links change: rates before and after, messages, and remains."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autosync.commands.emulate import main
from autosync.spec import ClusterSpec
from tests.trials.cluster.test_cluster_file import read
from tests.trials.emulate.clusters import needs_root, remains
from tests.trials.emulate.test_network import check_gone
from trials.emulate import Host, add_node, down, emulated, find, start_inside, up
from trials.emulate.processes import end_all
from trials.emulate.state import CHANGER, State, read_state
from trials.phases import VARIABLE, phases_here, read_begun

pytestmark = needs_root

SOURCE = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
print("ready", flush=True)
connection, _ = listener.accept()
try:
    while True:
        connection.sendall(bytes(8192))
except OSError:
    pass
"""

METER = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5000)) as connection:
    while True:
        begin, data = time.time(), 0
        while time.time() < begin + 0.25:
            data += len(connection.recv(65536))
        print(begin, time.time(), data, flush=True)
"""


def changing(folder: Path, *changes: str, nodes: int = 2) -> ClusterSpec:
    return read(folder, f"link: 200mbit\nnodes: [{{count: {nodes}}}]\nchanges: [{', '.join(changes)}]\n")


def megabits_a_second(source: Host, target: Host, seconds: float) -> list[tuple[float, float, float]]:
    """Return the begin, the end and the rate of each quarter of a second of a transfer."""
    sending = start_inside(source, [sys.executable, "-c", SOURCE, source.address], stdout=subprocess.PIPE, text=True)
    assert sending.stdout is not None
    assert sending.stdout.readline() == "ready\n"
    reading = start_inside(target, [sys.executable, "-c", METER, source.address], stdout=subprocess.PIPE, text=True)
    time.sleep(seconds)
    reading.kill()
    lines = [list(map(float, line.split())) for line in reading.communicate(timeout=60)[0].splitlines()[:-1]]
    sending.kill()
    sending.communicate(timeout=60)
    return [(begin, end, data * 8e-6 / (end - begin)) for begin, end, data in lines]


def test_a_link_carries_its_rate_before_and_its_other_rate_after(name: str, tmp_path: Path) -> None:
    with emulated(name, changing(tmp_path, "{after: 2s, nodes: {node1: {down: 20mbit}}}"), start_ray=False) as made:
        measured = megabits_a_second(*made.hosts, seconds=5.0)
        begun = read_begun(state_of(name).phases_file)
        assert begun[1] - begun[0] >= 2.0
        before = [rate for begin, end, rate in measured if end < begun[1]][1:]
        after = [rate for begin, end, rate in measured if begin > begun[1] + 0.75]  # data under way has arrived
        assert 120 < sorted(before)[len(before) // 2] < 210, measured
        assert 12 < sorted(after)[len(after) // 2] < 21, measured
    assert remains(name) == []


def state_of(name: str) -> State:
    state = read_state(name)
    assert state is not None
    return state


def wait_for_phase(name: str, number: int) -> None:
    deadline = time.monotonic() + 30
    while len(read_begun(state_of(name).phases_file)) <= number:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_status_says_the_phase_and_a_node_that_joins_has_its_rates(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    changing(tmp_path, "{after: 500ms, nodes: {node0: {up: 50mbit}}}", "{after: 1000s, link: 1gbit}")
    assert main(["up", str(file), "--no-ray", "--name", name]) == 0
    assert "Links change: phase 0 of 0 to 2 began 0.0 s after the cluster was up, " in capfd.readouterr().out
    wait_for_phase(name, 1)
    made = find(name)
    assert made is not None
    assert add_node(made).cluster.phase_starts == (0.0, 0.5, 1000.0)
    assert main(["status", "--name", name]) == 0
    said = capfd.readouterr().out
    for node, address, rate in (
        ("node0", "10.77.0.1", "50"),
        ("node1", "10.77.0.2", "200"),
        ("node2", "10.77.0.3", "50"),
    ):
        assert f"{node}  {address}  {rate} Mbit/s" in said
    assert re.search(r"Links change: phase 1 of 0 to 2 began \d\.\d s after the cluster was up, \d+ s ago; ", said)
    assert re.search(r"; phase 2 begins 1000 s after, in 9\d\d s\.\n", said)
    shaped = subprocess.run(["tc", "-n", f"as-{name}-2", "qdisc", "show"], capture_output=True, text=True, check=True)
    assert "rate 50Mbit" in shaped.stdout
    assert main(["down", "--name", name]) == 0
    assert remains(name) == []


def test_a_program_on_a_node_finds_the_phase_of_a_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with emulated(name, changing(tmp_path, "{after: 500ms, link: 20mbit}"), start_ray=False) as made:
        printing = start_inside(made.hosts[1], ["printenv", VARIABLE], stdout=subprocess.PIPE, text=True)
        file = printing.communicate(timeout=60)[0].strip()
        wait_for_phase(name, 1)
        begun = read_begun(Path(file))
        monkeypatch.setenv(VARIABLE, file)
        times = [begun[0] - 1, begun[0] + 0.1, begun[1] - 1e-3, begun[1], begun[1] + 99]
        assert phases_here(made.cluster, times) == (0, 0, 0, 1, 1)


def test_one_whose_changes_nobody_carries_out_any_more_is_not_up(name: str, tmp_path: Path) -> None:
    cluster = changing(tmp_path, "{after: 1000s, link: 20mbit}")
    up(name, cluster, start_ray=False)
    assert end_all([state_of(name).processes[CHANGER]]) == []
    assert find(name) is None
    told: list[str] = []
    up(name, cluster, start_ray=False, say=told.append)
    assert told == [f"The remains of {name!r} after a crash were removed first."]
    changer = state_of(name).processes[CHANGER]
    assert changer.runs()
    assert down(name)
    assert not changer.runs()
    assert remains(name) == []


MAKE = (
    "import os, sys\nfrom pathlib import Path\nfrom trials.cluster.file import read_cluster_file\n"
    "from trials.emulate import lifecycle\n"
    "die = lambda *_: os.kill(os.getpid(), 9)\n"
)
KILLS = {
    "before it is written down": "change = lifecycle.changing\n"
    "def changing(state):\n    with change(state):\n        die()\n"
    "lifecycle.changing = changing\n",
    "when it is written down": "write = lifecycle.write_state\n"
    "lifecycle.write_state = lambda state: (write(state), state.complete and die())\n",
}


@pytest.mark.parametrize("moment", KILLS)
def test_the_process_that_changes_links_goes_with_one_killed_while_it_makes_the_cluster(
    name: str, moment: str, tmp_path: Path
) -> None:
    changing(tmp_path, "{after: 1000s, link: 20mbit}")
    code = f"{MAKE}{KILLS[moment]}lifecycle.up(sys.argv[1], read_cluster_file(sys.argv[2]), start_ray=False)"
    crashed = subprocess.run([sys.executable, "-c", code, name, str(tmp_path / "cluster.yaml")], check=False)
    assert crashed.returncode == -9
    deadline = time.monotonic() + 20
    while (
        left := [line for line in remains(name) if "trials.emulate.changes" in line]
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert find(name) is None
    assert down(name)


def test_nothing_is_left_of_one_whose_owner_is_killed(name: str, tmp_path: Path) -> None:
    changing(tmp_path, "{after: 1s, link: 20mbit}", "{after: 1000s, link: 1gbit}")
    code = (
        f"{MAKE}with lifecycle.emulated(sys.argv[1], read_cluster_file(sys.argv[2]), start_ray=False):\n"
        "    print('up', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, name, str(tmp_path / "cluster.yaml")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_for_phase(name, 1)
        changer = state_of(name).processes[CHANGER]
        process.kill()
    check_gone(name)
    assert not changer.runs()

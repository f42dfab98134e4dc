"""Emulated clusters of an ordinary user, who is root only in a user namespace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.dataset import ResultStore
from studies.bench.columns import LIVE
from tests.commands.explained_runs import write_profile
from tests.trials.emulate.clusters import remains
from tests.trials.emulate.rootless import ROOT, SECONDS, OrdinaryUser, ordinary_user
from trials.emulate.as_root import NEW
from trials.emulate.quotas import quota_group
from trials.emulate.rootless import entering
from trials.emulate.state import State, folder_of


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    with ordinary_user() as user:
        yield user
        assert user.left() == []


@pytest.fixture
def name(user: OrdinaryUser) -> Iterator[str]:
    """A name for an emulated cluster of the user; nothing of it may remain after the user's own `down`."""
    name = f"u{user.number}"
    yield name
    user.run(*COMMAND, "down", "--name", name)
    assert remains(name) == []


COMMAND = ("python", "-m", "autosync", "emulate")


def said(user: OrdinaryUser, *argv: str) -> str:
    done = user.run(*argv)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_one_command_after_the_other_finds_the_cluster_and_files_are_the_users(user: OrdinaryUser, name: str) -> None:
    lines = said(user, *COMMAND, "up", "--nodes", "2", "--link", "200mbit", "--no-ray", "--name", name).splitlines()
    assert lines[1].startswith("node0  10.77.0.1  200 Mbit/s  200 Mbit/s  ")
    assert said(user, *COMMAND, "status", "--name", name).splitlines()[1:3] == lines[1:3]
    inside = "id -u; tc qdisc show dev eth0; touch mine; echo inside >> mine"
    told = said(user, *COMMAND, "exec", "--name", name, "--node", "node1", "--", "sh", "-c", inside)
    assert told.startswith("0\nqdisc tbf")
    assert "rate 200Mbit" in told
    assert (user.home / "mine").stat().st_uid == user.number
    for fault in ("unplug", "plug", "kill", "restart"):
        said(user, *COMMAND, "fault", fault, "node1", "--name", name)
    assert said(user, *COMMAND, "fault", "add", "--name", name) == "Node 'node2' has joined.\n"
    knock = "import errno, socket; print(errno.errorcode[socket.socket().connect_ex(('10.77.0.3', 9))])"
    assert said(user, *COMMAND, "exec", "--name", name, "--", "python", "-c", knock) == "ECONNREFUSED\n"
    assert said(user, *COMMAND, "down", "--name", name) == f"Emulated cluster {name!r} is down.\n"


CRASHES = {
    "before its holder is in the file": "    rootless.Process.of = lambda pid: die()",
    "before its network": "    lifecycle.make_network = lambda wiring: die()",
    "before its first host is in the file": "    start = lifecycle.start_host\n"
    "    lifecycle.start_host = lambda host: (start(host), die())",
}


@pytest.mark.parametrize("moment", CRASHES)
def test_the_remains_of_a_crash_are_removed_by_a_later_command(user: OrdinaryUser, name: str, moment: str) -> None:
    code = (
        "import os, sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import lifecycle, rootless\n"
        "def die():\n    os.kill(os.getpid(), 9)\n"
        f"rootless.begin_as_root(sys.argv[1])\nif sys.argv[2:]:\n{CRASHES[moment]}\n"
        "lifecycle.up(sys.argv[1], star_of(2, 1.0), start_ray=False, say=print)"
    )
    for remove in (True, False):
        assert user.run("python", "-c", code, name, "crash").returncode == -signal.SIGKILL
        assert folder_of(name).exists()
        if remove:
            assert said(user, *COMMAND, "down", "--name", name) == f"Emulated cluster {name!r} is down.\n"
            assert user.left() == []
    assert said(user, "python", "-c", code, name) == f"The remains of {name!r} after a crash were removed first.\n"


def test_one_made_for_the_length_of_a_block_goes_with_a_process_that_is_killed_in_it(
    user: OrdinaryUser, name: str
) -> None:
    code = (
        "import sys\nfrom trials.cluster.racks import star_of\nfrom trials.emulate import emulated, run_inside\n"
        "from trials.emulate.rootless import begin_as_root\nbegin_as_root(sys.argv[1])\n"
        "with emulated(sys.argv[1], star_of(2, 1.0), start_ray=False) as made:\n"
        "    print('up', flush=True)\n    run_inside(made.hosts[1], ['sleep', '600'])"
    )
    with user.start("python", "-c", code, name, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert "node1  10.77.0.2" in said(user, *COMMAND, "status", "--name", name)
        process.kill()
    assert user.left() == []
    assert remains(name) == []


def test_links_change_and_nothing_is_left_of_what_changed_them(user: OrdinaryUser, name: str) -> None:
    text = "link: 200mbit\nnodes: [{count: 2}]\nchanges: [{after: 1s, nodes: {node1: {up: 20mbit}}}]\n"
    (user.home / "changes.yaml").write_text(text, encoding="utf-8")
    said(user, *COMMAND, "up", "changes.yaml", "--no-ray", "--name", name)
    deadline = time.monotonic() + SECONDS
    while "phase 1 of 0 to 1" not in (status := said(user, *COMMAND, "status", "--name", name)):
        assert time.monotonic() < deadline
    assert "node1  10.77.0.2  20 Mbit/s   200 Mbit/s" in status
    assert said(user, *COMMAND, "down", "--name", name) == f"Emulated cluster {name!r} is down.\n"
    assert user.left() == []


def test_a_cluster_whose_holder_was_killed_is_not_up_and_is_removed_by_the_next_up(
    user: OrdinaryUser, name: str
) -> None:
    make = (*COMMAND, "up", "--nodes", "1", "--no-ray", "--name", name)
    said(user, *make)
    state = State.from_json(json.loads((folder_of(name) / "state.json").read_text(encoding="utf-8")))
    assert state.holder is not None
    state.holder.kill()
    done = user.run(*COMMAND, "status", "--name", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"emulate: No emulated cluster {name!r} is up; make it with `autosync emulate up`.")
    assert said(user, *make).startswith(f"The remains of {name!r} after a crash were removed first.\n")


def test_a_quota_of_cores_needs_a_control_group_that_the_user_may_write(user: OrdinaryUser, name: str) -> None:
    (user.home / "slow.yaml").write_text("nodes: [{count: 2, cores: 0.5}]\n", encoding="utf-8")
    done = user.run(*COMMAND, "up", "slow.yaml", "--no-ray", "--name", name)
    assert done.returncode == 2
    assert done.stderr.startswith("emulate: A quota of 0.5 cores cannot be written to '/sys/fs/cgroup/")
    assert done.stderr.endswith(
        "; run where control groups can be written, or omit `cores`, and slow nodes down by a `pace` instead, such as "
        "`pace: {scale: 2}`.\n"
    )
    assert done.stderr.count("\n") == 1


def test_a_quota_of_cores_holds_in_a_control_group_that_is_the_users(user: OrdinaryUser, name: str) -> None:
    with _group_of(user) as (group, member):
        (user.home / "slow.yaml").write_text("nodes: [{count: 2, cores: 0.5}]\n", encoding="utf-8")
        assert "  0.5  " in said(member, *COMMAND, "up", "slow.yaml", "--no-ray", "--name", name)
        told = said(user, *COMMAND, "exec", "--name", name, "--", "cat", "/proc/self/cgroup")
        assert f"/{group.name}/" in told
        assert f"/autosync-{name}-0\n" in told
        said(user, *COMMAND, "down", "--name", name)


@contextmanager
def _group_of(user: OrdinaryUser) -> Iterator[tuple[Path, OrdinaryUser]]:
    """A control group of the user, with the user in a group inside it. Skips if that is impossible."""
    group = quota_group(f"autosync-test-{user.number}")
    if not user.before or not os.access(group.parent, os.W_OK):
        pytest.skip(f"A user is given a control group by root, who can write to {group.parent}; here that is not so.")
    inner = group / "own"
    inner.mkdir(parents=True)
    try:
        for folder in (group, inner):
            for path in filter(Path.exists, (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control")):
                os.chown(path, user.number, user.number)
        join = ("sh", "-ec", f'echo 0 > {inner}/cgroup.procs; exec "$@"', "sh")
        yield group, replace(user, before=(*join, *user.before))
    finally:
        inner.rmdir()
        group.rmdir()


def test_another_users_cluster_is_left_alone(user: OrdinaryUser, name: str) -> None:
    if user.number == 0 or not user.before:
        pytest.skip("Two users are played by root, who can become one; this is not root.")
    folder_of(name).mkdir(mode=0o700)
    try:
        done = user.run(*COMMAND, "down", "--name", name)
        assert done.returncode == 2
        assert done.stderr == (
            f"emulate: Folder {str(folder_of(name))!r} is another user's, and is not trusted; give another name.\n"
        )
    finally:
        folder_of(name).rmdir()


def test_the_setting_that_is_in_the_way_is_said(user: OrdinaryUser, name: str) -> None:
    """The limit is set in a user namespace, where the user is root, so the machine's limit is unchanged."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --inh-caps -all -- "$@"'
    command = (sys.executable, *COMMAND[1:], "up", "--nodes", "1", "--no-ray", "--name", name)
    done = user.run(*entering(NEW), "/bin/sh", "-ec", script, "sh", *command)
    assert done.returncode == 2
    assert done.stderr == (
        "emulate: No cluster can be emulated here: root lacks CAP_NET_ADMIN or CAP_SYS_ADMIN here and needs user "
        "namespaces instead, and /proc/sys/user/max_user_namespaces is 0; write a thousand to it, or give it both, a "
        "container by --privileged.\n"
    )


@pytest.mark.thorough
def test_all_that_root_can_do_an_ordinary_user_can(user: OrdinaryUser) -> None:
    files = [
        str(ROOT / "tests/trials/emulate" / file) for file in ("test_network.py", "test_command.py", "test_ray.py")
    ]
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", str(user.home / "tmp"))
    done = user.run(*entering(NEW), sys.executable, "-m", "pytest", *options, *files, seconds=500)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("topology", ["two_racks", "paced_two_racks"])
def test_a_search_runs_to_its_end(user: OrdinaryUser, topology: str) -> None:
    where = ("--emulate", str(ROOT / f"topologies/{topology}.yaml"), "--out", "run", "--data", "data")
    done = user.run("python", "-m", "autosync", "tune", "--model", "mlp", "--trials", "3", *where, seconds=500)
    assert done.returncode == 0, done.stderr
    result = json.loads((user.home / "run/result.json").read_text(encoding="utf-8"))
    assert result["trials"]
    assert user.clusters() == []


@pytest.mark.thorough
def test_a_benchmark_searches_a_paced_cluster_by_a_profile(user: OrdinaryUser) -> None:
    (user.home / "paced.yaml").write_text("pace: {scale: 1}\nnodes: [{count: 2}]\n", encoding="utf-8")
    write_profile(user.home / "h100.json")
    asked = ("--cells", "mlp@paced.yaml", "--profile", "h100.json", "--seeds", "1", "--trials", "2", "--out", "bench")
    less = ("--searcher", "random", "--", "--rounds", "1", "--steps", "5", "--warmup", "1", "--no-probe")
    done = user.run("python", "-m", "studies", "bench", "live", *asked, *less, seconds=500)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "paced passes follow a profile of H100" in done.stdout
    assert done.stdout.endswith("1 of 1 searches have a result.\n")
    (row,) = ResultStore(user.home / "bench/live", LIVE).read()
    assert row["more"].startswith("--profile h100.json ")
    assert min(row["measured_seconds"]) > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("topology", ["uniform_200mbit", "paced_two_racks"])
@pytest.mark.parametrize("sign", ["Making an emulated cluster", "   1/3"])
def test_nothing_is_left_of_a_search_that_was_killed(user: OrdinaryUser, sign: str, topology: str) -> None:
    where = ("--emulate", str(ROOT / f"topologies/{topology}.yaml"), "--out", "run", "--data", "data")
    command = ("python", "-u", "-m", "autosync", "tune", "--model", "mlp", "--trials", "3", *where)
    with user.start(*command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert any(line.startswith(sign) for line in process.stdout)
        process.kill()
    assert user.left() == []

"""The command `autosync emulate`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from autosync.commands.emulate import main
from tests.trials.emulate.clusters import needs_root


@needs_root
def test_up_status_exec_faults_and_down(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    chosen = ["--name", name]
    assert main(["up", "--nodes", "2", "--link", "200mbit", "--no-ray", *chosen]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["node", "address", "up", "down", "cores", "processes", "memory", "Ray"]
    assert lines[1].startswith("node0  10.77.0.1  200 Mbit/s  200 Mbit/s  ")
    assert lines[3].startswith("TCP congestion control: ")
    assert lines[4] == "Rates are shaped, delay is not: latency is that of this machine."
    assert main(["up", "--nodes", "2", "--link", "200mbit", "--no-ray", *chosen]) == 0
    assert capfd.readouterr().out.startswith(f"Emulated cluster {name!r} is up already; nothing was done.\n")
    assert main(["exec", *chosen, "--", "sh", "-c", "echo inside; exit 5"]) == 5
    assert capfd.readouterr().out == "inside\n"
    for fault, told in [
        ("unplug", "is unplugged"),
        ("plug", "is plugged in"),
        ("kill", "is dead"),
        ("restart", "runs again"),
    ]:
        assert main(["fault", fault, "node1", *chosen]) == 0
        assert capfd.readouterr().out == f"Node 'node1' {told}.\n"
    assert main(["fault", "add", *chosen]) == 0
    assert capfd.readouterr().out == "Node 'node2' has joined.\n"
    assert main(["status", *chosen]) == 0
    assert "node2  10.77.0.3" in capfd.readouterr().out
    assert main(["down", *chosen]) == 0
    assert main(["down", *chosen]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == f"Emulated cluster {name!r} is down."
    assert second.startswith(f"No emulated cluster {name!r} is up.")


@needs_root
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status"], "No emulated cluster 'none' is up; make it with `autosync emulate up`."),
        (["up", "--link", "fast"], "A rate is written like 200mbit or 1.5gbit"),
        (["up", "some.yaml", "--nodes", "2"], "A cluster is described by a file, or by --nodes and --link"),
    ],
)
def test_a_wrong_argument_gives_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--name", "none"]) == 2
    complaint = capfd.readouterr().err
    assert complaint.startswith(f"emulate: {sentence}")
    assert complaint.count("\n") == 1


@needs_root
def test_faults_and_commands_that_are_not_there_are_named(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--nodes", "1", "--no-ray", "--name", name]) == 0
    capfd.readouterr()
    assert main(["exec", "--name", name, "--", "no-such-command"]) == 2
    assert main(["fault", "kill", "node7", "--name", name]) == 2
    assert main(["status", "--name", "none"]) == 2
    assert main(["down", "--name", "none"]) == 0
    said = capfd.readouterr()
    assert re.search(rf"No emulated cluster 'none' is up\. There are: .*\b{name}\b", said.out)
    complaints = said.err.splitlines()
    assert complaints[0].startswith("emulate: The command 'no-such-command' does not exist")
    assert complaints[1].startswith("emulate: The cluster has no node 'node7'. Nodes: node0.")
    assert re.search(rf"No emulated cluster 'none' is up; make it with .* There are: .*\b{name}\b", complaints[2])


def test_a_machine_without_the_tools_is_one_sentence_and_status_2() -> None:
    command = [sys.executable, "-m", "autosync", "emulate", "up"]
    done = subprocess.run(command, env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "emulate: No cluster can be emulated here: the command 'ip' is not on the PATH; install iproute2.\n"
    )


def test_importing_the_command_loads_no_heavy_framework() -> None:
    code = "import sys, autosync.commands.emulate; print({'ray', 'tensorflow', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"

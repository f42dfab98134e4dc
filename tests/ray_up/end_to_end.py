"""A cluster of machines reached by ssh, from `ray up` to `ray down`: `python -m tests.ray_up.end_to_end [--short]`.

Three emulated hosts on links of 200 Mbit/s are the machines, and a fourth is the operator's. The output is a transcript
with the seconds of each step. With --short there is one search, as a job, instead of two.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import yaml

from autosync.errors import AutosyncError
from tests.ray_up.cluster_file import filled_in
from tests.ray_up.machines import (
    BROUGHT,
    HOME,
    PROJECT,
    lacking,
    make_key,
    open_to,
    ray_processes,
    run_as_operator,
    separate,
    start_as_operator,
)
from trials.cluster.racks import parse_rate, star_of
from trials.emulate import Emulated, Host, emulated

__all__ = ["LACKING", "main"]

LACKING = 77
"""The exit status if this machine cannot run the test, as in automake for skipped tests."""

MACHINES = 3
CLUSTER_FILE = "cluster.local.yaml"
KEY = ".ssh/cluster_key"
DASHBOARD = "http://localhost:8265"

NOISE = re.compile(r"\S+ \S+\tV*(INFO|WARN|SUCC) |Shared connection|$")
"""Output of Ray's launcher and ssh around the output of the command."""

SMALL = ("--trials", "6", "--rounds", "2", "--warmup", "3", "--steps", "10", "--seed", "0", "--simulator", "analytic")
MODEL_FILE = """
import keras
import numpy as np


def perceptron():
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    inputs = np.random.default_rng(0).normal(size=(16, 32)).astype("float32")
    return model, loss, (inputs, np.arange(16) % 10)
"""


class StepError(AutosyncError):
    """A step failed."""


def main(arguments: Sequence[str] = ()) -> int:
    """Run all steps, and return the exit status."""
    if lacks := lacking():
        click.echo(f"ray up: {lacks}", err=True)
        return LACKING
    begin = time.monotonic()
    try:
        with emulated(f"rayup{os.getpid()}", star_of(MACHINES + 1, parse_rate("200mbit")), start_ray=False) as cluster:
            _steps(cluster, short="--short" in arguments)
    except (AutosyncError, subprocess.CalledProcessError) as error:
        click.echo(f"ray up: {error}", err=True)
        return 1
    click.echo(f"All of it took {time.monotonic() - begin:.0f} s.")
    return 0


def _steps(cluster: Emulated, short: bool) -> None:
    *machines, operator = cluster.hosts
    with _step(f"{MACHINES} machines with sshd, and an operator with a copy of the project"):
        _furnish(machines, operator)
    with _step("ray get-auth-token --generate"):
        _ray(operator, "get-auth-token", "--generate", seconds=30)
    with _step(f"ray up -y {CLUSTER_FILE}"):
        _ray(operator, "up", "-y", CLUSTER_FILE, seconds=240)
    with _step(f"ray submit {CLUSTER_FILE} where.py"):
        said = _ray(operator, "submit", CLUSTER_FILE, "tests/ray_up/where.py", str(MACHINES), seconds=270)
        if not _all_nodes_are_right(said, machines):
            log = _ray(operator, "exec", CLUSTER_FILE, "tail -n 60 /tmp/ray/session_latest/logs/monitor*", seconds=60)
            raise StepError(f"Not every machine is a node with the project. Ray's launcher on the head said:\n{log}")
    if not short:
        with _step(f"ray exec {CLUSTER_FILE} 'python -m autosync.tune --model mlp --address auto'"):
            command = f"python -m autosync.tune --model mlp --address auto --out runs/mlp {' '.join(SMALL)}"
            _check_run(operator, _ray(operator, "exec", CLUSTER_FILE, command, seconds=240), "mlp")
    with _step("ray job submit --working-dir mine -- python -m autosync.tune --model mymodel:perceptron"):
        _check_run(operator, _submit_job(operator), "mine")
    with _step(f"ray down -y {CLUSTER_FILE}"):
        _ray(operator, "down", "-y", CLUSTER_FILE, seconds=60)
        _check_ended(machines[0], seconds=10.0)
    with _step("the other machines notice that the head is gone"):
        for host in machines[1:]:
            _check_ended(host, seconds=120.0)


def _furnish(machines: list[Host], operator: Host) -> None:
    for host in (*machines, operator):
        separate(host)
    home = operator.private_folder / "home"
    public_key = make_key(home / Path(KEY).parent, Path(KEY).name)
    for host in machines:
        open_to(host, public_key)
    subprocess.run(
        ["rsync", "-a", "--exclude=.git", "--filter=dir-merge,- .gitignore", f"{PROJECT}/", home / BROUGHT.name],
        check=True,
    )
    cluster = filled_in(PROJECT / CLUSTER_FILE, [host.address for host in machines], "root", f"~/{KEY}")
    (home / BROUGHT.name / CLUSTER_FILE).write_text(yaml.safe_dump(cluster), encoding="utf-8")
    (home / "mine").mkdir()
    (home / "mine" / "mymodel.py").write_text(MODEL_FILE, encoding="utf-8")


def _submit_job(operator: Host) -> str:
    """Run a search for the operator's own model as a job; return its output."""
    tunnel = start_as_operator(operator, *_RAY, "dashboard", CLUSTER_FILE)
    try:
        run_as_operator(operator, "bash", "-c", "until : < /dev/tcp/localhost/8265; do sleep 0.2; done", seconds=60)
        keep = ("--out", str(HOME / "runs/mine"), "--data", str(HOME / "data"))
        tune = ("python", "-m", "autosync.tune", "--model", "mymodel:perceptron", *SMALL, *keep)
        command = ("job", "submit", "--address", DASHBOARD, "--working-dir", str(HOME / "mine"), "--", *tune)
        return _ray(operator, *command, seconds=240)
    finally:
        os.killpg(tunnel.pid, signal.SIGKILL)
        tunnel.wait()


_RAY = (sys.executable, "-m", "ray.scripts.scripts")


def _ray(operator: Host, *arguments: str, seconds: float) -> str:
    """Run `ray` with `arguments` as the operator; return its output. Raises `StepError`."""
    done = run_as_operator(operator, *_RAY, *arguments, seconds=seconds)
    if done.status != 0:
        raise StepError(f"`ray {arguments[0]}` ended with status {done.status} and said:\n{done.said}")
    return done.said


def _all_nodes_are_right(said: str, machines: list[Host]) -> bool:
    """True if every machine is a node, and runs the project brought by `ray up`."""
    seen = {}
    for line in said.splitlines():
        if line.startswith("NODE "):
            node = json.loads(line.removeprefix("NODE "))
            seen[node["address"]] = (node["autosync"], node["python"])
            click.echo(f"          {node['address']} runs {node['autosync']} with {node['python']}")
    brought = (f"{BROUGHT}/autosync/__init__.py", f"{BROUGHT}/.venv/bin/python")
    return seen == {host.address: brought for host in machines}


def _check_run(operator: Host, said: str, name: str) -> None:
    """Check that search `name` used a worker on every machine, and that its result can be fetched.

    Raises `StepError`.
    """
    _ray(operator, "rsync-down", CLUSTER_FILE, f"~/runs/{name}/", f"{HOME}/fetched-{name}", seconds=30)
    result = operator.private_folder / "home" / f"fetched-{name}" / "result.json"
    if not result.exists():
        raise StepError(f"The run {name!r} left no result. It said:\n{said}")
    for line in said.splitlines():
        if not NOISE.match(line):
            click.echo(f"          {line.rstrip()}")


def _check_ended(host: Host, seconds: float) -> None:
    """Check that Ray ends on the host after a while. Raises `StepError`."""
    deadline = time.monotonic() + seconds
    while left := ray_processes(host):
        if time.monotonic() > deadline:
            raise StepError(f"Ray still runs on {host.address}, {seconds:g} s after `ray down`: {left}")
        time.sleep(0.5)


@contextmanager
def _step(what: str) -> Iterator[None]:
    begin = time.monotonic()
    click.echo(f"          {what} ...")
    yield
    click.echo(f"{time.monotonic() - begin:7.1f} s  {what}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

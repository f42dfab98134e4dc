"""Starts one real Ray node on each host."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import trials
from autosync.errors import ClusterError
from autosync.spec import Node, SharedCores
from trials.cluster.ray_labels import EMULATING, RAY_SETTINGS, Later, start_options
from trials.emulate.hosts import HEAD_PORT, Host, start_inside

DASHBOARD_PORT = 8265
OBJECT_STORE_BYTES = 80 * 1024 * 1024
START_SECONDS, ALIVE_SECONDS, ASK_SECONDS = 120.0, 60.0, 15.0


def start_arguments(host: Host, node: Node, rack: str | None, later: Later = ()) -> list[str]:
    """Return the command that makes `host` a Ray node; the nodes share this machine's processors."""
    node = replace(node, shared_cores=SharedCores(EMULATING, float(os.cpu_count() or 1)))
    options = [
        f"--node-ip-address={host.address}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
        *start_options(node, rack, later),
    ]
    if host.index == 0:
        options += ["--head", f"--port={HEAD_PORT}", f"--temp-dir={host.folder / 'ray'}"]
        options += ["--include-dashboard=true", "--dashboard-host=0.0.0.0", f"--dashboard-port={DASHBOARD_PORT}"]
    else:
        options.append(f"--address={host.head_address}")
    return [sys.executable, "-m", "ray.scripts.scripts", "start", *options]


def start_head(host: Host, node: Node, rack: str | None, later: Later) -> None:
    """Make `host` the head of Ray. Raises `ClusterError` with Ray's last message."""
    _finish(host, _start(host, node, rack, later))


def join_rays(joining: Sequence[tuple[Host, Node, str | None, Later]], head: Host) -> None:
    """Start Ray on the hosts `joining`, all at once, and wait until they and the head are alive.

    Raises `ClusterError` with Ray's last message.
    """
    started = [(arguments[0], _start(*arguments)) for arguments in joining]
    for host, starting in started:
        _finish(host, starting)
    hosts = [head, *(host for host, _ in started)]
    known = ray_nodes_of(head, ALIVE_SECONDS, [host.address for host in hosts])
    alive = {node["address"] for node in known if node["alive"]}
    for host in hosts:
        if host.address not in alive:
            raise ClusterError(
                f"Ray on node {host.node!r} was not alive after {ALIVE_SECONDS:g} s; `ray start` said last: "
                f"{_last_line(_log(host))!r}."
            )


def ray_nodes_of(head: Host, seconds: float = ASK_SECONDS, wait_for: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return `address`, `alive` and `labels` of each node known to Ray's control store on `head`.

    Waits up to `seconds` for the addresses `wait_for` to be alive. Empty if the store does not answer.
    """
    command = [sys.executable, "-m", "trials.emulate.control_store", head.head_address, str(seconds), *wait_for]
    root = str(Path(trials.__file__).resolve().parents[1])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    asking = start_inside(
        head, command, within_quota=False, env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said, _ = asking.communicate(timeout=seconds + ASK_SECONDS)
    except subprocess.TimeoutExpired:
        asking.kill()
        asking.communicate()
        return []
    return json.loads(said) if asking.returncode == 0 else []


def _start(host: Host, node: Node, rack: str | None, later: Later) -> subprocess.Popen[Any]:
    # RAY_ADDRESS and similar variables belong to another cluster; RAY_ before a small letter sets a property of Ray
    # itself.
    environment = {name: value for name, value in os.environ.items() if not re.match("RAY_[A-Z]", name)}
    # Files of Ray and its workers lie in the host's private folders, which are removed with the host.
    environment |= {"HOME": str(host.folder / "home"), "TMPDIR": str(host.folder / "tmp")}
    environment = RAY_SETTINGS | environment
    with _log(host).open("wb") as log:
        return start_inside(
            host, start_arguments(host, node, rack, later), env=environment,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/",
        )  # fmt: skip


def _finish(host: Host, starting: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + START_SECONDS
    try:
        status = starting.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        starting.kill()
        starting.wait()
        status = -9
    if status != 0:
        raise ClusterError(
            f"Ray could not be started on node {host.node!r}: {_last_line(_log(host))!r}. Check that `ray start` works "
            "in this environment."
        )


def _log(host: Host) -> Path:
    return host.private_folder / "ray-start.log"


def _last_line(log: Path) -> str:
    lines = [" ".join(line.split()) for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    messages = [line for line in lines if "Error" in line or "error" in line] or [line for line in lines if line]
    return messages[-1][:300] if messages else "no output"

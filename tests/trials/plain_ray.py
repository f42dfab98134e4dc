"""A Ray cluster started as in Ray's manual, `ray start --head`, with its own home, and drivers that join it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RAY = (sys.executable, "-m", "ray.scripts.scripts")
START_SECONDS, END_SECONDS, JOIN_SECONDS = 120.0, 60.0, 180.0

MARK = "AUTOSYNC_TEST_PLAIN_RAY"
"""A variable in the environment of all processes of such a cluster."""

DRIVER = """
import sys
import ray
from autosync.errors import ClusterError
from trials.workers.local_ray import RayStart, start_ray

@ray.remote
class Echo:
    def of(self, number):
        return number

try:
    print(start_ray(RayStart(sys.argv[1])))
except ClusterError as error:
    sys.exit(str(error))
print(ray.get(Echo.remote().of.remote(ray.put(53)), timeout=90), len(ray.nodes()))
"""
"""A program that joins the cluster at the given address and calls an actor there."""


def user(home: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a user with `home` and no settings of Ray except `variables`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**inherited, "HOME": str(home), **variables}


def with_token(home: Path, token: str | None, mode: int = 0o600) -> Path:
    """Return a new `home` with `token` at Ray's default path."""
    shutil.rmtree(home, ignore_errors=True)
    (home / ".ray").mkdir(parents=True)
    if token is not None:
        (home / ".ray" / "auth_token").write_text(token)
        (home / ".ray" / "auth_token").chmod(mode)
    return home


@dataclass(frozen=True)
class PlainCluster:
    """A running cluster. `address` is its head's HOST:PORT."""

    address: str
    mark: str

    def join(self, home: Path, address: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `DRIVER` as the user with `home` and `variables`."""
        command = [sys.executable, "-c", DRIVER, address or self.address]
        return subprocess.run(
            command, env=user(home, **variables), capture_output=True, text=True, timeout=JOIN_SECONDS, check=False
        )

    def processes(self) -> set[int]:
        """Return the living processes of this cluster."""
        pids = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}\0".encode() in (folder / "environ").read_bytes():
                    pids.add(int(folder.name))
            except OSError:
                continue
        return pids

    def end(self, number: signal.Signals) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def plain_cluster(home: Path, **variables: str) -> Iterator[PlainCluster]:
    """A head that the user with `home` and `variables` has started; nothing of it remains afterwards."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        cluster = PlainCluster(f"127.0.0.1:{free_port()}", folder)
        options = ["--num-cpus=4", "--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}/ray"]
        options += ["--object-store-memory=80000000", f"--port={cluster.address.rpartition(':')[2]}", "--block"]
        with started(["--head", *options], Path(folder, "head.log"), user(home, **variables, **{MARK: folder})):
            try:
                yield cluster
            finally:
                cluster.end(signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while cluster.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        cluster.end(signal.SIGKILL)


@contextmanager
def started(options: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run `ray start` with `options`, which end in --block, until it reports that it runs. Raises with its output."""
    with log.open("w") as file:
        node = subprocess.Popen(
            [*RAY, "start", *options], env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Ray runtime started." not in log.read_text():
            if node.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.2)
        yield
    finally:
        node.terminate()
        try:
            node.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            node.kill()
            node.wait()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])

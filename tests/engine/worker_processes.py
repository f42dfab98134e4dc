"""Real TensorFlow servers for tests: one process each, ended with the block that asked for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

__all__ = ["REPOSITORY", "quiet", "worker_processes"]

REPOSITORY = Path(__file__).parents[2]


def quiet() -> dict[str, str]:
    """The environment of a process whose TensorFlow logs errors only."""
    return os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@contextmanager
def worker_processes(count: int) -> Iterator[list[str]]:
    """Addresses of `count` servers on this machine; every process is killed when the block ends, however it ends."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_process()) for _ in range(count)]  # they import TensorFlow side by side
        yield [_address(process) for process in processes]


@contextmanager
def _process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.engine.worker_processes"]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=quiet(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, f"A worker process ended with code {process.wait()} before it had an address."
    return line


def _serve() -> None:
    """Print the server's address, then wait until the parent closes standard input or is gone."""
    from autosync.engine.tensorflow.servers import start_server

    server, address = start_server("127.0.0.1", cores=1, peers=["127.0.0.1"])
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve()

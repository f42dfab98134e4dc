"""Captures a user's model in a subprocess, which can be ended even if the model's function never returns."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autosync.engine.core import marked_processes
from autosync.engine.core.marked_processes import MARK
from autosync.engine.core.registry import DEFAULT, engine_named
from autosync.errors import AutosyncError, ModelError
from autosync.zoo import build_task
from autosync.zoo.own_framework import build_own

CAPTURE_SECONDS, MOST_CAPTURE_SECONDS = 180.0, 604_800.0
"""The default and the largest time limit, in seconds, for building and capturing a model; the largest is a week."""

CAPTURED, REFUSED = b"captured\n", b"refused\n"


def capture_in_subprocess(
    model: str,
    seconds: float,
    meanwhile: Callable[[], Any] = lambda: None,
    framework: str | None = DEFAULT,
    folder: Path | None = None,
) -> tuple[str, bytes]:
    """Capture the user's `model` in a subprocess within `seconds`; return the framework and the bytes of
    `Captured.to_bytes`. The model decides about a `framework` of None.

    A thread of this process could not end a function that sleeps, and would not even run while a function is busy in
    C++ and holds Python's lock. `meanwhile` is called while the subprocess works. The subprocess has this process's
    current directory and import path, after `folder`. Raises `ModelError`, with no process left behind.
    """
    return _in_subprocess(model, seconds, meanwhile, "capture", framework, folder)


def try_in_subprocess(
    model: str,
    seconds: float,
    meanwhile: Callable[[], Any] = lambda: None,
    framework: str | None = DEFAULT,
    folder: Path | None = None,
) -> str:
    """Build the user's `model` and train it on its batch once, in a subprocess; return its framework. The arguments are
    those of `capture_in_subprocess`.

    Raises `ModelError` for a model that cannot be captured, long before workers are started for it.
    """
    return _in_subprocess(model, seconds, meanwhile, "try", framework, folder)[0]


def _in_subprocess(
    model: str, seconds: float, meanwhile: Callable[[], Any], task: str, framework: str | None, folder: Path | None
) -> tuple[str, bytes]:
    deadline = time.monotonic() + seconds
    import_path = [*([] if folder is None else [str(folder)]), *(path or os.getcwd() for path in sys.path)]
    with tempfile.TemporaryDirectory(prefix="autosync-capture-") as directory, _lifetime_mark() as mark:
        answer = Path(directory) / "answer"
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, task, framework or "", model, str(answer)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(import_path), MARK: mark},
        )
        try:
            meanwhile()
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise too_slow(model, seconds) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reply = answer.read_bytes() if answer.exists() else b""
    if reply.startswith(CAPTURED):
        name, _, captured = reply.removeprefix(CAPTURED).partition(b"\n")
        return name.decode(), captured
    if reply.startswith(REFUSED):
        raise ModelError(reply.removeprefix(REFUSED).decode())
    raise ModelError(f"Capturing {model!r} ended its process {_in_words(status)}; check its function.")


@contextmanager
def _lifetime_mark() -> Iterator[str]:
    """Yield a mark; processes with the mark end with the block, or with this process if this process is killed."""
    mark = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(marked_processes.__file__).resolve()), mark],
        stdin=subprocess.PIPE,  # the pipe closes when this process dies, which ends the watcher
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != MARK},
    )
    try:
        yield mark
    finally:
        marked_processes.end_marked(mark)
        watcher.kill()
        watcher.wait()
        assert watcher.stdin is not None, "a pipe"
        watcher.stdin.close()


def too_slow(model: str, seconds: float) -> ModelError:
    """Return the error for a `model` that was not captured within `seconds`."""
    return ModelError(
        f"Building and capturing {model!r} must take no longer than {seconds:g} s, but was not finished by then; check "
        "that its function ends, or raise --capture-time-limit."
    )


def _in_words(status: int) -> str:
    return f"by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"with exit status {status}"


def _do(task: str, framework: str, model: str, answer: Path) -> None:
    """Run `task` with `model` in the subprocess and write the result to `answer`. An empty `framework` is that of the
    model.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a capture needs no GPU, and would take all of its memory
    try:
        framework, built = _built(framework, model) if framework else build_own(model)
        captured = engine_named(framework).capture(built).to_bytes() if task == "capture" else b""
        reply = CAPTURED + framework.encode() + b"\n" + captured
    except AutosyncError as error:
        reply = REFUSED + str(error).encode(errors="backslashreplace")
    answer.write_bytes(reply)


def _built(framework: str, model: str) -> tuple[str, Any]:
    engine = engine_named(framework)
    with engine.quiet_log():
        engine.load()
    return framework, build_task(model, framework=framework)


if __name__ == "__main__":
    _do(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))

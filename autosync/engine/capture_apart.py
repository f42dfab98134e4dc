"""Capturing a user's model in a process of its own, which can be ended whatever the model's function is doing."""

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

from autosync.engine import ending
from autosync.engine.ending import MARK
from autosync.engine.loading import load_tensorflow, quiet_log
from autosync.errors import AutosyncError, ModelError

CAPTURE_SECONDS, MOST_CAPTURE_SECONDS = 180.0, 604_800.0
"""Seconds that building and capturing a model may take by default, and the most that may be asked for: a week."""

CAPTURED, REFUSED = b"captured\n", b"refused\n"


def captured_apart(model: str, seconds: float, meanwhile: Callable[[], Any] = lambda: None) -> bytes:
    """The user's own `model` as `CapturedModel.to_bytes` writes it, captured within `seconds` of now.

    A thread of this process could not end a function that is asleep, and would not even run beside one that is busy in
    C++ and keeps Python's lock. `meanwhile` is called while the other process works. The current directory and what
    this process imports from are the other's too. Raises `ModelError`, with no process left behind.
    """
    return _apart(model, seconds, meanwhile, "capture")


def tried_apart(model: str, seconds: float, meanwhile: Callable[[], Any] = lambda: None) -> None:
    """Build the user's own `model` and train it on its batch once, in another process; arguments as above.

    Raises `ModelError` for what could not be captured, long before workers are started for it.
    """
    _apart(model, seconds, meanwhile, "try")


def _apart(model: str, seconds: float, meanwhile: Callable[[], Any], task: str) -> bytes:
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="autosync-capture-") as directory, _ended_with_this() as mark:
        answer = Path(directory) / "answer"
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, task, model, str(answer)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path), MARK: mark},
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
        said = answer.read_bytes() if answer.exists() else b""
    if said.startswith(CAPTURED):
        return said.removeprefix(CAPTURED)
    if said.startswith(REFUSED):
        raise ModelError(said.removeprefix(REFUSED).decode())
    raise ModelError(f"Capturing {model!r} ended its process {_in_words(status)}; see what its function does.")


@contextmanager
def _ended_with_this() -> Iterator[str]:
    """A mark for the block; processes that bear it end with the block, or with this process if that is killed."""
    mark = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(ending.__file__).resolve()), mark],
        stdin=subprocess.PIPE,  # whose end tells the watcher that this process has gone
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != MARK},
    )
    try:
        yield mark
    finally:
        ending.end_marked(mark)
        watcher.kill()
        watcher.wait()
        assert watcher.stdin is not None, "a pipe"
        watcher.stdin.close()


def too_slow(model: str, seconds: float) -> ModelError:
    """The error to raise when `model` was not captured within `seconds`."""
    return ModelError(
        f"Building and capturing {model!r} must take no longer than {seconds:g} s, but it was not done by then; see "
        "whether its function ends, or raise --capture-time-limit."
    )


def _in_words(status: int) -> str:
    return f"by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"with exit status {status}"


def _do(task: str, model: str, answer: Path) -> None:
    """Do the work of the process of its own: `task` with `model`, whose result goes to `answer`."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a capture needs no GPU, and would take all of its memory
    with quiet_log():
        load_tensorflow()
    from autosync.engine.capture.capturing import capture
    from autosync.engine.zoo import build_task

    try:
        built = build_task(model)
        said = CAPTURED + (capture(built).to_bytes() if task == "capture" else b"")
    except AutosyncError as error:
        said = REFUSED + str(error).encode(errors="backslashreplace")
    answer.write_bytes(said)


if __name__ == "__main__":
    _do(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

"""Capturing a user's model in a process of its own, which can be ended whatever the model's function is doing."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autosync.engine.loading import load_tensorflow
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
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="autosync-capture-") as directory:
        answer = Path(directory) / "answer"
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, model, str(answer)],
            stdin=subprocess.PIPE,  # whose end tells the process that this one has gone
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)},
        )
        try:
            meanwhile()
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise too_slow(model, seconds) from None
        finally:
            _end(process)
        said = answer.read_bytes() if answer.exists() else b""
    if said.startswith(CAPTURED):
        return said.removeprefix(CAPTURED)
    if said.startswith(REFUSED):
        raise ModelError(said.removeprefix(REFUSED).decode())
    raise ModelError(f"Capturing {model!r} ended its process {_in_words(status)}; see what its function does.")


def too_slow(model: str, seconds: float) -> ModelError:
    """The error to raise when `model` was not captured within `seconds`."""
    return ModelError(
        f"Building and capturing {model!r} must take no longer than {seconds:g} s, but it was not done by then; see "
        "whether its function ends, or raise --capture-time-limit."
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with whatever it has started, unless it has ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _in_words(status: int) -> str:
    return f"by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"with exit status {status}"


def _capture(model: str, answer: Path) -> None:
    """Do the work of the process of its own: capture `model`, and write to `answer` what came of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a capture needs no GPU, and would take all of its memory
    load_tensorflow()
    from autosync.engine.capture.capturing import capture
    from autosync.engine.zoo import build_task

    try:
        said = CAPTURED + capture(build_task(model)).to_bytes()
    except AutosyncError as error:
        said = REFUSED + str(error).encode()
    answer.write_bytes(said)


def _end_with_parent() -> None:
    os.read(0, 1)  # nothing is ever written
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _capture(sys.argv[1], Path(sys.argv[2]))

"""TensorFlow as one of the project's own processes loads it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.engine.worker_processes import REPOSITORY, quiet

SCRIPT = """
import sys
from autosync.engine.tensorflow.loading import UNUSED, load_tensorflow
load_tensorflow()
assert "tensorflow" in sys.modules and "keras" in sys.modules
print(*set(UNUSED) & set(sys.modules))
import sklearn
import keras
keras.layers.Dense(3)
load_tensorflow()
assert sys.modules["sklearn"] is sklearn
"""

LOGGED = """
import os, sys
from autosync.engine.tensorflow.loading import load_tensorflow, quiet_log
with quiet_log():
    load_tensorflow()
    import tensorflow as tf
    tf.config.list_physical_devices()
    os.write(2, b"I0000 00:00:1795571101.831327   11016 port.cc:153] oneDNN custom operations are on.\\n")
    os.write(2, b"E0000 00:00:1795571106.963820   11016 ops.cc:52] something is wrong\\n")
    print("a model's own words", file=sys.stderr)
print("afterwards", file=sys.stderr)
"""


def logged(level: str | None) -> str:
    """Standard error of a process that loads TensorFlow with this log level; None leaves the level unset."""
    environment = {name: value for name, value in quiet().items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level}
    command = [sys.executable, "-c", LOGGED]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


@pytest.mark.thorough
def test_only_errors_of_its_log_are_shown_and_everything_that_others_write():
    wrong = "E0000 00:00:1795571106.963820   11016 ops.cc:52] something is wrong"
    assert logged(None).splitlines() == [wrong, "a model's own words", "afterwards"]


@pytest.mark.thorough
def test_its_whole_log_is_shown_if_the_level_asks_for_it():
    assert "oneDNN custom operations are on." in logged("0")


def test_it_loads_keras_without_optional_modules_which_can_be_imported_later():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=REPOSITORY, env=quiet(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr[-2000:]

"""TensorFlow loaded by a process of the project's own."""

from __future__ import annotations

import subprocess
import sys

from tests.engine.worker_processes import REPOSITORY, quiet

SCRIPT = """
import sys
from autosync.engine.loading import UNUSED, load_tensorflow
load_tensorflow()
assert "tensorflow" in sys.modules and "keras" in sys.modules
print(*set(UNUSED) & set(sys.modules))
import sklearn
import keras
keras.layers.Dense(3)
load_tensorflow()
assert sys.modules["sklearn"] is sklearn
"""


def test_it_comes_with_keras_and_without_what_keras_takes_along_which_can_be_imported_later():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=REPOSITORY, env=quiet(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr[-2000:]

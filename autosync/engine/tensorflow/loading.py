"""Loads TensorFlow in the project's own processes: quietly, and without modules that they do not need."""

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from autosync.engine.core.registry import check_engine_installed
from autosync.errors import ModelError

UNUSED = ("matplotlib", "sklearn")
"""Modules that Keras, which TensorFlow imports, also imports if installed: for pictures and `keras.wrappers`."""

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""The variable of TensorFlow's C++ log level: 0 logs everything, 1 drops information, 2 warnings, 3 errors."""

NO_NEWS = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|[IW]\d{4} [\d:.]+ +\d+ \S+\] "
    rb"|E\d{4} [\d:.]+ +\d+ \S+\] failed call to cuInit"
)
"""Log lines below errors, and the one error that appears on a machine without a working GPU."""


def load_tensorflow() -> None:
    """Import TensorFlow with a C++ log of errors only, and Keras on TensorFlow.

    Without `UNUSED`, the import takes 3.9 s of processor time instead of 6.2 s (on this project's two cores), and every
    worker and client of a search needs it. A model can still import these modules itself. The classes of
    `keras.wrappers` then say that scikit-learn is not installed. Raises `ModelError` if a package is missing.
    """
    check_engine_installed("tensorflow")
    os.environ.setdefault(LEVEL, "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    withheld = [name for name in UNUSED if name not in sys.modules]
    # None instead of a module makes its import fail, and Keras handles the failure.
    sys.modules.update(dict.fromkeys(withheld))  # type: ignore[arg-type]
    try:
        importlib.import_module("tensorflow")
    finally:
        for name in withheld:
            del sys.modules[name]


def check_backend() -> None:
    """Raise `ModelError` if Keras runs on another back end than TensorFlow, or is configured to."""
    keras = sys.modules.get("keras")
    name = keras.backend.backend() if keras is not None else os.environ.get("KERAS_BACKEND", "tensorflow")
    if name != "tensorflow":
        raise ModelError(
            f"Keras must run on TensorFlow here, but its back end is {name!r}; set KERAS_BACKEND=tensorflow before "
            'Keras is imported, or the "backend" in keras.json.'
        )


@contextmanager
def quiet_log() -> Iterator[None]:
    """In the block, keep lines of TensorFlow's C++ log below errors off standard error, unless the level asks for them.

    TensorFlow 2.21 ignores the level for its first lines, at import and at the first search for GPUs. The C++ log
    writes to the process's file descriptor, not to Python's stream, so this function redirects the descriptor. All
    other output to standard error appears at the end of the block, or never if the process is killed in the block. Use
    this function for a command that a person waits for, not for workers.
    """
    if os.environ.get(LEVEL, "2") in ("0", "1") or sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)
            written.seek(0)
            for line in written:
                if not NO_NEWS.match(line):
                    os.write(2, line)

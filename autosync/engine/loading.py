"""TensorFlow as the project's own processes load it: quiet, and without what they have no use for."""

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from autosync.errors import ModelError

UNUSED = ("matplotlib", "sklearn")
"""Modules that Keras, which TensorFlow imports, takes along if installed: for pictures and `keras.wrappers`."""

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""The environment variable of TensorFlow's C++ log: 0 is all of it, 1 is without information, 2 warnings, 3 errors."""

NO_NEWS = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|[IW]\d{4} [\d:.]+ +\d+ \S+\] "
    rb"|E\d{4} [\d:.]+ +\d+ \S+\] failed call to cuInit"
)
"""Lines of that log that are below errors, and the one error of a machine that has no working GPU."""


def load_tensorflow() -> None:
    """Import TensorFlow, whose C++ log then keeps to errors and whose Keras to TensorFlow.

    A process that does without `UNUSED` has it in 3.9 s of processor in place of 6.2 (this project's two cores), and
    every worker and client of a search is one. A model's own import of them works as ever; the classes of
    `keras.wrappers` say there that scikit-learn is not installed.
    """
    os.environ.setdefault(LEVEL, "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    withheld = [name for name in UNUSED if name not in sys.modules]
    # None in place of a module makes its import fail, which Keras is ready for.
    sys.modules.update(dict.fromkeys(withheld))  # type: ignore[arg-type]
    try:
        importlib.import_module("tensorflow")
    finally:
        for name in withheld:
            del sys.modules[name]


def check_backend() -> None:
    """Raise `ModelError` where Keras runs on something else than TensorFlow, or is set to."""
    keras = sys.modules.get("keras")
    name = keras.backend.backend() if keras is not None else os.environ.get("KERAS_BACKEND", "tensorflow")
    if name != "tensorflow":
        raise ModelError(
            f"Keras must run on TensorFlow here, but its back end is {name!r}; set KERAS_BACKEND=tensorflow before "
            'Keras is imported, or the "backend" in keras.json.'
        )


@contextmanager
def quiet_log() -> Iterator[None]:
    """Keep TensorFlow's C++ log below errors off standard error in the block, unless the level asks for it.

    TensorFlow 2.21 writes its first lines, when it is imported and when it first looks for GPUs, whatever the level is.
    They go to the process's file of standard error, not to Python's, so this is what is turned elsewhere; all else that
    is written there comes at the end of the block, or never if the process is killed in it. So this is for a command
    that a person waits for, not for workers.
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

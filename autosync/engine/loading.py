"""TensorFlow as the project's own processes load it: quiet, and without what they have no use for."""

from __future__ import annotations

import importlib
import os
import sys

__all__ = ["load_tensorflow"]

UNUSED = ("matplotlib", "sklearn")
"""Keras, which TensorFlow imports, takes them along where they are installed, for pictures and `keras.wrappers`."""


def load_tensorflow() -> None:
    """Import TensorFlow, whose C++ log then keeps to errors and whose Keras to TensorFlow.

    A process that does without `UNUSED` has it in 3.9 s of processor in place of 6.2 (this project's two cores), and
    every worker and client of a search is one. A model's own import of them works as ever; the classes of
    `keras.wrappers` say there that scikit-learn is not installed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    withheld = [name for name in UNUSED if name not in sys.modules]
    # None in place of a module makes its import fail, which Keras is ready for.
    sys.modules.update(dict.fromkeys(withheld))  # type: ignore[arg-type]
    try:
        importlib.import_module("tensorflow")
    finally:
        for name in withheld:
            del sys.modules[name]

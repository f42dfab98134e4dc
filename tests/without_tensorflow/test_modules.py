"""Modules that can be imported without TensorFlow and Keras: all except those that are listed here."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.architecture.source_tree import PACKAGES, ROOT, modules
from tests.without_tensorflow import path_without_tensorflow

ENGINE = "autosync.engine.tensorflow."
"""The rest of a module's name in this package is free: the engine loads TensorFlow where it runs."""

KERAS_ZOO = {
    *("autosync.zoo.bert", "autosync.zoo.characters", "autosync.zoo.digits", "autosync.zoo.images"),
    *("autosync.zoo.language", "autosync.zoo.perceptron", "autosync.zoo.quadratic", "autosync.zoo.recommendation"),
    *("autosync.zoo.teacher",),
}
"""Models in Keras."""

OWN_KERAS_MODELS = {
    *("autosync.zoo.losses", "autosync.zoo.own_loss", "autosync.zoo.own_parts", "autosync.zoo.own_task"),
    *("autosync.zoo.user_model",),
}
"""Parts of a user's own Keras model."""

IMPORTED = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(name, error.name)
"""


def names() -> list[str]:
    """Return the names of all modules of the packages, except those that run at import."""
    files = [file for file in modules(*PACKAGES) if file.stem != "__main__"]
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]


def test_only_the_tensorflow_engine_and_keras_models_need_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *names()],
        env=os.environ | {"PYTHONPATH": path_without_tensorflow()},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=ROOT,
    )
    failed = dict(line.split() for line in done.stdout.splitlines())
    assert {name for name in failed if not name.startswith(ENGINE)} == KERAS_ZOO | OWN_KERAS_MODELS
    assert set(failed.values()) <= {"tensorflow", "keras", "keras_hub"}
    assert f"{ENGINE}servers" in failed
    assert f"{ENGINE}engine" not in failed

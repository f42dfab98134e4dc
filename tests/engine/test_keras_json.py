"""Models of the zoo do not depend on the user's keras.json."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.zoo import build_task

MODELS = ("mlp", "resnet-mini")

SETTINGS: dict[str, Any] = {
    "floatx": "float32",
    "epsilon": 1e-7,
    "backend": "tensorflow",
    "image_data_format": "channels_last",
}

PROGRAM = """
import hashlib, keras
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.zoo import build_task

for model in {models!r}:
    print(model, hashlib.sha256(capture(build_task(model)).to_bytes()).hexdigest())
print(keras.config.floatx(), keras.config.image_data_format(), keras.config.epsilon())
"""


@pytest.mark.parametrize(
    "changed",
    [{"image_data_format": "channels_first", "floatx": "float16"}, {"floatx": "float64", "epsilon": 0.1}],
    ids=str,
)
def test_zoo_models_do_not_follow_keras_json(changed: dict[str, Any], tmp_path: Path) -> None:
    settings = SETTINGS | changed
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(models=MODELS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=os.environ | {"KERAS_HOME": str(tmp_path)},
    )
    *lines, after = done.stdout.splitlines()
    assert after == f"{settings['floatx']} {settings['image_data_format']} {settings['epsilon']}"
    assert lines == [f"{model} {hashlib.sha256(capture(build_task(model)).to_bytes()).hexdigest()}" for model in MODELS]


def test_the_users_settings_are_put_back() -> None:
    keras.config.set_epsilon(1e-3)
    try:
        build_task("mlp")
        assert keras.config.epsilon() == 1e-3
    finally:
        keras.config.set_epsilon(1e-7)

"""The command `autosync profile`: profiles measured without TensorFlow fit the captured models; refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autosync.commands.profile import main
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.errors import SpecError
from autosync.spec import DeviceProfile, read_device_profile
from autosync.zoo import MODELS, build_task
from tests.architecture.source_tree import ROOT

SMALL = sorted(name for name in MODELS if name.endswith("-mini") or name == "mlp")
LARGE = sorted(set(MODELS) - set(SMALL))
RUN = "tests.commands.without_tensorflow"

OWN = """
import keras
import numpy as np


def model():
    wide, deep = keras.Input((5,), name="wide"), keras.Input((3,), dtype="int32", name="deep")
    x = keras.layers.Embedding(9, 4, name="table")(deep)
    x = keras.layers.Concatenate()([wide, keras.layers.Flatten()(x)])
    x = keras.layers.Dense(7, "relu", kernel_regularizer="l2", name="hidden")(x)
    used = keras.layers.Dense(2, name="used")(x)
    unused = keras.layers.Dense(2, name="unused")(x)
    inputs = {"wide": np.ones((6, 5)), "deep": np.zeros((6, 3), np.int32)}
    network = keras.Model({"wide": wide, "deep": deep}, [used, unused])
    return network, lambda targets, outputs: keras.ops.mean((outputs[0] - targets) ** 2), (inputs, np.ones((6, 2)))


def vector():
    network, _, example = model()
    return network, lambda targets, outputs: keras.ops.mean(outputs[0] - targets, axis=0), example
"""


def run(*lists: list[str], withheld: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the command in one new process without TensorFlow, once for each list of arguments."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("KERAS_BACKEND", None)
    start = [sys.executable, "-W", "ignore", "-m", RUN]
    if withheld:
        start = [
            sys.executable,
            "-c",
            f"import sys, runpy; sys.modules[{withheld!r}] = None; runpy.run_module({RUN!r}, None, '__main__', True)",
        ]
    return subprocess.run(
        [*start, json.dumps(lists)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def asked(model: str, out: Path, *more: str) -> list[str]:
    return ["--model", model, "--out", str(out), "--device", "cpu", "--warmup", "1", "--steps", "3", *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the profile of every small model, and of a user's own model."""
    folder = tmp_path_factory.mktemp("profiles")
    (folder / "own_model.py").write_text(OWN)
    lists = [asked(name, folder / "new" / f"{name}.json") for name in SMALL]
    lists.append(asked("bert-mini", folder / "eager.json", "--eager", "--precision", "bfloat16"))
    lists.append(asked("own_model:model", folder / "own.json", "--precision", "float32"))
    done = run(*lists, folder=folder)
    assert done.stdout.count("status 0\n") == len(lists), done.stdout + done.stderr
    (folder / "said").write_text(done.stdout)
    return folder


def fitted(profile: DeviceProfile, model: str) -> None:
    spec = capture(build_task(model)).spec
    profile.check_fits(model, spec.batch_size, [variable.name for variable in spec.variables])


@pytest.mark.quick("bert-mini", "vgg-mini", "ncf-mini", "resnet-mini", "transformer-lm-mini")
@pytest.mark.parametrize("name", SMALL)
def test_a_profile_measured_without_tensorflow_fits_the_model_captured_with_it(folder: Path, name: str) -> None:
    profile = read_device_profile(folder / "new" / f"{name}.json")
    fitted(profile, name)
    assert max(profile.ready_seconds.values()) <= profile.backward_seconds
    with pytest.raises(SpecError, match="measure this model"):
        profile.check_fits(name, profile.batch_size, [*profile.ready_seconds, "one more"])


def test_a_profile_says_what_it_was_measured_on_and_how(folder: Path) -> None:
    profile = read_device_profile(folder / "new" / "mlp.json")
    assert profile.device.startswith("CPU ")
    assert profile.precision == "float32, TF32 off"
    assert profile.versions["torch"] == torch.__version__
    assert {"keras", "python"} < set(profile.versions)
    assert profile.versions["launched"] == "from tape"
    eager = read_device_profile(folder / "eager.json")
    assert eager.versions["launched"] == "eagerly"
    assert eager.precision == "bfloat16 mixed with float32, TF32 off"
    assert set(eager.ready_seconds) == set(read_device_profile(folder / "new" / "bert-mini.json").ready_seconds)


def test_a_model_of_ones_own_is_measured_and_what_is_unused_is_left_out_as_when_captured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    profile = read_device_profile(folder / "own.json")
    assert set(profile.ready_seconds) == {
        *("table/embeddings", "hidden/kernel", "hidden/bias", "used/kernel", "used/bias")
    }
    fitted(profile, "own_model:model")
    said = (folder / "said").read_text()
    assert "Variable 'unused/kernel' has no gradient and is left out, as when the model is captured.\n" in said
    assert "own_model:model on CPU" in said


@pytest.mark.thorough
@pytest.mark.parametrize("name", LARGE)
def test_a_large_model_has_variables_of_the_same_names_and_shapes_on_pytorch(name: str) -> None:
    program = (
        "import sys, json; sys.modules['tensorflow'] = None\n"
        "from autosync.zoo.on_torch import build_on_torch, load_keras_on_torch\n"
        "load_keras_on_torch('float32'); task = build_on_torch(sys.argv[1], 'cpu')\n"
        "print(json.dumps([[name, list(each.shape)] for name, each in task.parameters.items()]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, check=True, timeout=300, cwd=ROOT
    )
    variables = build_task(name).model.trainable_variables
    assert json.loads(done.stdout.splitlines()[-1]) == [[variable.path, list(variable.shape)] for variable in variables]


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a command that was refused."""
    assert done.stdout == "status 2\n", done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_machine_without_pytorch_is_told_what_to_install(tmp_path: Path) -> None:
    line = refused(run(asked("mlp", tmp_path / "p.json"), withheld="torch"))
    assert line.startswith("profile: A profile is measured with PyTorch and Keras 3, but importing PyTorch failed (")
    assert line.endswith("; install the packages torch and keras.")


def test_a_machine_without_a_gpu_is_told_of_the_other_device(tmp_path: Path) -> None:
    line = refused(run(["--model", "mlp", "--out", str(tmp_path / "p.json")]))
    assert line == (
        f"profile: A profile is measured on a GPU, but PyTorch {torch.__version__} finds none here; measure on a "
        "machine with a GPU, or pass --device cpu."
    )
    assert not list(tmp_path.iterdir())


def test_a_precision_that_the_device_has_not_is_refused(tmp_path: Path) -> None:
    line = refused(run(asked("mlp", tmp_path / "p.json", "--precision", "tf32")))
    assert line == (
        "profile: --precision tf32 needs an NVIDIA GPU of compute capability 8.0 or later, which this device "
        "is not; choose float32."
    )


def test_a_loss_may_give_several_values(tmp_path: Path) -> None:
    (tmp_path / "own_model.py").write_text(OWN)
    done = run(asked("own_model:vector", tmp_path / "p.json"), folder=tmp_path)
    assert done.stdout.endswith("status 0\n"), done.stdout + done.stderr
    assert read_device_profile(tmp_path / "p.json").batch_size == 6


def test_a_process_whose_keras_runs_on_tensorflow_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_task("mlp")
    before = dict(os.environ)
    assert main(asked("mlp", tmp_path / "p.json")) == 2
    assert capsys.readouterr().err == (
        "profile: Keras must run on PyTorch to measure a profile, but this process has imported it on 'tensorflow'; "
        "measure in a process of its own.\n"
    )
    assert dict(os.environ) == before


def test_an_unknown_model_and_a_place_that_cannot_be_written_are_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for arguments, told in {
        ("nosuch", tmp_path / "p.json"): "No model is called 'nosuch'. Known: bert, bert-base,",
        ("mlp", tmp_path): f"Profile '{tmp_path}' cannot be written; name a file in a folder that you may write to.",
        ("mlp", tmp_path / "file" / "p.json"): "cannot be made: File exists; name another.",
    }.items():
        assert main(asked(*arguments)) == 2
        assert told in capsys.readouterr().err

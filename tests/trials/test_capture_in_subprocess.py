"""Capturing a user's model in a subprocess gives the same model, and ends a function that never returns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.errors import ModelError
from autosync.zoo import build_task
from tests.engine.worker_processes import REPOSITORY, quiet
from trials.capture_in_subprocess import capture_in_subprocess, try_in_subprocess

MODEL = """
import ctypes
import os
import re
import subprocess
import time

import keras
import numpy as np


def note(pid):
    with open("pids", "a") as file:
        file.write(f"{pid}\\n")


def small():
    print("a user's own words")
    normalized = keras.layers.Normalization(mean=np.ones(300), variance=np.ones(300))
    model = keras.Sequential([keras.Input((300,)), normalized, keras.layers.Dense(2)])
    return model, "mse", (np.eye(4, 300), np.ones((4, 2)))


def asleep():
    note(os.getpid())
    time.sleep(1e6)


def busy_in_c():
    note(os.getpid())
    note(subprocess.Popen(["sleep", "100000"]).pid)
    re.match("(a+)+$", "a" * 64 + "b")  # holds Python's lock all the time


def leaves_children():
    note(subprocess.Popen(["sleep", "100000"]).pid)
    note(subprocess.Popen(["sleep", "100000"], start_new_session=True).pid)
    child = os.fork()
    if not child:
        os.setsid()
        time.sleep(1e6)
        os._exit(0)
    note(child)
    return small()


def leaves_children_asleep():
    leaves_children()
    asleep()


def talks():
    raise ValueError("x" * 20_000_000)


class Unprintable(Exception):
    def __str__(self):
        raise KeyError


def cannot_say():
    raise Unprintable(3)


def faulty():
    ctypes.string_at(0)


def quits():
    os._exit(0)


def wrong():
    return 3
"""
ENOUGH_SECONDS, GONE_WITHIN_SECONDS = 15.0, 20.0
"""Seconds that a process takes to come to the function, on a busy machine too; those the system may take to end it."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "apart.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def _left_of(directory: Path) -> set[int]:
    """Return the processes noted by the model's function that still live, after they have had time to end."""
    pids = {int(line) for line in (directory / "pids").read_text().split()}
    deadline = time.monotonic() + GONE_WITHIN_SECONDS
    while (left := {pid for pid in pids if _lives(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize("stated", ["tensorflow", None])
def test_a_model_captured_apart_is_the_one_captured_here(stated: str | None) -> None:
    called = []
    framework, apart = capture_in_subprocess("apart:small", 100.0, lambda: called.append(True), stated)
    assert framework == "tensorflow"
    assert apart == capture(build_task("apart:small")).to_bytes()
    assert called == [True]


@pytest.mark.usefixtures("directory")
def test_a_model_not_captured_in_time_is_refused_in_one_sentence() -> None:
    begin = time.monotonic()
    with pytest.raises(ModelError) as refused:
        capture_in_subprocess("apart:asleep", 0.3)
    assert str(refused.value) == (
        "Building and capturing 'apart:asleep' must take no longer than 0.3 s, but was not finished by then; "
        "check that its function ends, or raise --capture-time-limit."
    )
    assert time.monotonic() - begin < GONE_WITHIN_SECONDS


@pytest.mark.thorough
@pytest.mark.parametrize("function", ["asleep", "busy_in_c"])
def test_a_function_that_does_not_end_is_ended_with_all_it_has_started(directory: Path, function: str) -> None:
    with pytest.raises(ModelError, match=r"must take no longer than 15 s"):
        capture_in_subprocess(f"apart:{function}", ENOUGH_SECONDS)
    assert _left_of(directory) == set()


@pytest.mark.thorough
@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("faulty", r"Capturing 'apart:faulty' ended its process by signal 11 \(Segmentation fault\); check its"),
        ("quits", r"Capturing 'apart:quits' ended its process with exit status 0; check its"),
        ("wrong", r"^'apart:wrong' must return \(keras_model, loss, \(inputs, targets\)\) .* but returned int\.$"),
    ],
)
def test_a_function_that_ends_its_process_or_is_refused_is_one_sentence(function: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        capture_in_subprocess(f"apart:{function}", 100.0)


def test_children_of_a_function_end_with_the_capture(directory: Path) -> None:
    capture_in_subprocess("apart:leaves_children", 100.0)
    assert len((directory / "pids").read_text().split()) == 3
    assert _left_of(directory) == set()


def test_a_model_that_cannot_be_captured_is_refused_by_trying_it(directory: Path) -> None:
    try_in_subprocess("apart:leaves_children", 100.0)
    assert _left_of(directory) == set()
    with pytest.raises(ModelError, match=r"^'apart:wrong' must return \(keras_model, loss, \(inputs, targets\)\) "):
        try_in_subprocess("apart:wrong", 100.0)


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("talks", r"failed: ValueError: x{297}\.\.\. \(at "),
        ("cannot_say", r"failed: Unprintable: a message that cannot be printed \(at "),
    ],
)
def test_an_error_of_a_function_is_quoted_in_a_few_hundred_characters(function: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence) as refused:
        build_task(f"apart:{function}")
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("function", ["leaves_children_asleep", "busy_in_c"])
def test_the_process_ends_with_the_one_that_asked_even_if_that_is_killed(directory: Path, function: str) -> None:
    code = f"import trials.capture_in_subprocess as it; it.capture_in_subprocess('apart:{function}', 1000.0)"
    environment = quiet() | {"PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as asking:
        wanted = {"busy_in_c": 2, "leaves_children_asleep": 4}[function]
        while not (directory / "pids").exists() or len((directory / "pids").read_text().split()) < wanted:
            assert asking.poll() is None
            time.sleep(0.05)
        os.kill(asking.pid, signal.SIGKILL)
    assert _left_of(directory) == set()

"""The command `autosync train`, on logical devices."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf  # noqa: F401 - so that this process has logical devices before the command runs

from autosync.commands.train import main
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.runs.claim import claim_folder
from autosync.spec import Strategy, canonical_json
from tests.architecture.source_tree import ROOT
from tests.commands.documented import names_in_row
from tests.train.models import REPLICAS


@pytest.fixture
def strategy(tmp_path: Path) -> Path:
    """All variables of `mlp` in one ring of three."""
    names = [f"{layer}/{part}" for layer in ("dense_0", "dense_1", "logits") for part in ("kernel", "bias")]
    document = {
        "format": "autosync.strategy/1",
        "replicas": list(REPLICAS),
        "variables": [{"variable": name, "shards": [{"all_reduce": 0}]} for name in names],
    }
    file = tmp_path / "strategy.json"
    file.write_text(canonical_json(Strategy.from_json(document).to_json()))
    return file


def ran(monkeypatch: Any, *arguments: object) -> tuple[int, str]:
    """The exit status and the output."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options = ["--backend", "local", *map(str, arguments)]
    monkeypatch.setattr(sys, "argv", ["autosync.train", *options])
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = main(options)
    return status, printed.getvalue()


def weights(file: Path) -> list[bytes]:
    model = keras.models.load_model(file)
    return [variable.numpy().tobytes() for variable in (*model.variables, *model.optimizer.variables)]


def test_a_folder_that_another_command_uses_is_refused(monkeypatch: Any, strategy: Path, tmp_path: Path) -> None:
    with claim_folder(tmp_path / "run"):
        status, told = ran(monkeypatch, "--model", "mlp", "--strategy", strategy, "--out", tmp_path / "run")
    assert status == 2
    assert told.startswith(f"train: --out {tmp_path / 'run'} is in use by another command (process ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("discipline", "words"),
    [
        ({}, ""),
        ({"rhythm": {"steps": 4}}, "(replicas average parameters every 4 steps)"),
        ({"waits": {"first": 3}}, "(a step waits for the first 3 of 3 replicas, and the late finish their passes)"),
    ],
    ids=["plain", "meeting seldom", "waiting for all"],
)
def test_a_resumed_run_is_an_uninterrupted_one_to_the_bit(
    monkeypatch: Any, strategy: Path, tmp_path: Path, discipline: dict[str, Any], words: str
) -> None:
    strategy.write_text(json.dumps(json.loads(strategy.read_text()) | {"discipline": discipline}))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    common = ("--model", "mlp", "--strategy", strategy, "--log-every", 4)
    status, output = ran(monkeypatch, *common, "--steps", 12, "--checkpoint-every", 4, "--out", whole)
    assert status == 0, output
    assert f"Trained 12 steps; the model is in {whole}/checkpoints/step-00000012.keras." in output
    assert ("CHANGES THE STATISTICS" in output) == bool(discipline)
    assert words in output
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == [
        "step-00000008.keras",
        "step-00000012.keras",
    ]
    assert ran(monkeypatch, *common, "--steps", 7, "--out", parts)[0] == 0
    status, output = ran(monkeypatch, *common, "--steps", 12, "--out", parts, "--resume")
    assert status == 0, output
    assert "Resuming after step 7 from" in output
    assert weights(whole / "checkpoints/step-00000012.keras") == weights(parts / "checkpoints/step-00000012.keras")
    lines = [[json.loads(line) for line in (run / "loss.jsonl").read_text().splitlines()] for run in (whole, parts)]
    assert [line["step"] for line in lines[0]] == [1, 4, 8, 12]
    assert [(line["step"], line["loss"]) for line in lines[0]] == [(line["step"], line["loss"]) for line in lines[1]]


def test_training_reports_events_in_json_and_messages_on_stderr(
    monkeypatch: Any, strategy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--backend", "local", "--model", "mlp", "--strategy", str(strategy), "--out", str(tmp_path / "run")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main([*options, "--steps", "4", "--log-every", "2", "--json", "--quiet"]) == 0
    printed = capfd.readouterr()
    begun, *steps, result = [json.loads(line) for line in printed.out.splitlines()]
    assert begun["event"] == "training"
    assert (begun["model"], begun["replicas"], begun["earlier_steps"], begun["steps"]) == ("mlp", [*REPLICAS], 0, 4)
    lines = [json.loads(line) for line in (tmp_path / "run" / "loss.jsonl").read_text().splitlines()]
    assert steps == [{"event": "step", **line} for line in lines]
    checkpoint = str(tmp_path / "run" / "checkpoints" / "step-00000004.keras")
    assert result == {
        "event": "result", "outcome": "trained", "steps": 4, "checkpoint": checkpoint, "reason": ""
    }  # fmt: skip
    assert printed.err.splitlines()[-1] == f"Trained 4 steps; the model is in {checkpoint}."
    assert not any("loss" in line for line in printed.err.splitlines())
    for event in (begun, steps[0], result):
        assert event.keys() - {"event"} <= names_in_row("### Events of `train`", event["event"])
    assert main([*options, "--steps", "6", "--resume", "--verbose"]) == 0
    shown = [line.split()[1] for line in capfd.readouterr().out.splitlines() if line.startswith("step ")]
    assert shown == ["5", "6"]


def test_overlapping_steps_are_trained_in_calls_to_the_same_bits(
    monkeypatch: Any, strategy: Path, tmp_path: Path
) -> None:
    """Lines and checkpoints come after the same steps, so a call ends before each of them."""
    several, counts = SynchronousStep.several, list[int]()

    def count_steps(step: SynchronousStep, count: int) -> list[float]:
        counts.append(count)
        return several(step, count)

    monkeypatch.setattr(SynchronousStep, "several", count_steps)
    plain, overlapped = tmp_path / "plain", tmp_path / "overlapped"
    common = ("--model", "mlp", "--strategy", strategy, "--log-every", 10, "--checkpoint-every", 12)
    assert ran(monkeypatch, *common, "--steps", 30, "--out", plain)[0] == 0
    assert not counts
    strategy.write_text(json.dumps(json.loads(strategy.read_text()) | {"overlap_next_forward": True}))
    assert ran(monkeypatch, *common, "--steps", 17, "--out", overlapped)[0] == 0
    status, output = ran(monkeypatch, *common, "--steps", 30, "--out", overlapped, "--resume")
    assert status == 0, output
    assert {4, 2} >= set(counts) != set()
    folders = [run / "checkpoints" for run in (plain, overlapped)]
    names = ["step-00000024.keras", "step-00000030.keras"]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [names, names]
    assert all(weights(folders[0] / name) == weights(folders[1] / name) for name in names)
    lines = [
        [json.loads(line) for line in (run / "loss.jsonl").read_text().splitlines()] for run in (plain, overlapped)
    ]
    assert [line["step"] for line in lines[0]] == [1, 10, 20, 30]
    assert [(line["step"], line["loss"]) for line in lines[0]] == [(line["step"], line["loss"]) for line in lines[1]]


def test_ctrl_c_leaves_a_checkpoint_and_the_command_to_go_on(strategy: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autosync", "train", "--model", "mlp", "--strategy", str(strategy)]
    command += ["--steps", "1000000", "--backend", "local", "--out", str(tmp_path / "run")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    try:
        while not process.stdout.readline().startswith("step      20"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 130
    saved = next(iter((tmp_path / "run" / "checkpoints").iterdir()))
    assert f"saved {saved}." in rest
    assert f"Go on with: autosync train --model mlp --strategy {strategy}" in rest
    assert rest.rstrip().endswith("--resume")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--model", "none"), "train: No model is called 'none'. Known: "),
        (("--model", "mlp", "--resume"), "train: --resume needs --out, the directory of the run to resume."),
        (("--model", "mlp", "--resume", "--out", "nowhere"), "train: --resume needs an existing run, but nowhere h"),
        (("--model", "mlp", "--cluster", "a.yaml", "--workers", 2), "train: --workers and --cluster exclude each"),
        (("--model", "mlp", "--steps", 0), "train: Invalid value for '--steps'"),
        (("--model", "mlp", "--nonsense"), "train: No such option '--nonsense'"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_starts(
    monkeypatch: Any, strategy: Path, tmp_path: Path, more: tuple[Any, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, output = ran(monkeypatch, "--strategy", strategy, *more)
    assert (status, sentence in output, output.count("\n")) == (2, True, 1), output
    assert [path.name for path in tmp_path.iterdir()] == ["strategy.json"]


def test_a_hostile_file_is_refused_before_anything_starts(monkeypatch: Any, strategy: Path, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = Path("hostile")
    for text in ("[" * 100_000, '{"model": 1, "model": 2}', "{}"):
        hostile.mkdir(exist_ok=True)
        (hostile / "run.json").write_text(text)
        common = ("--model", "mlp", "--strategy")
        for more in ((strategy, "--resume", "--out", hostile), (hostile / "run.json",)):
            status, output = ran(monkeypatch, *common, *more)
            assert (status, output.count("\n")) == (2, 1), output
    Path("cluster.yaml").write_text("nodes: [{workers: 1000000000}]")
    status, output = ran(monkeypatch, "--model", "mlp", "--strategy", strategy, "--cluster", "cluster.yaml")
    assert (status, "workers: must be less than or equal to 2048, not 1000000000." in output) == (2, True)


def test_a_run_is_not_written_over_nor_gone_on_with_under_another_strategy(
    monkeypatch: Any, strategy: Path, tmp_path: Path
) -> None:
    common = ("--model", "mlp", "--out", tmp_path / "run", "--steps", 1, "--strategy", strategy)
    assert ran(monkeypatch, *common)[0] == 0
    status, output = ran(monkeypatch, *common)
    assert (status, "already holds a run; add --resume to continue" in output) == (2, True)
    document = json.loads(strategy.read_text())
    document["replicas"].reverse()
    strategy.write_text(json.dumps(document))
    status, output = ran(monkeypatch, *common, "--resume")
    assert (status, "--resume needs the same --strategy, but it was" in output) == (2, True)


def test_an_own_model_that_is_not_captured_in_time_is_refused(monkeypatch: Any, strategy: Path, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.py").write_text("import time\n\ndef make():\n    time.sleep(1e6)\n")
    options = (
        "--model",
        "endless:make",
        "--strategy",
        strategy,
        "--capture-time-limit",
        0.2,
        "--out",
        tmp_path / "run",
    )
    status, output = ran(monkeypatch, *options)
    assert status == 2
    assert "train: Building and capturing 'endless:make' must take no longer than 0.2 s, but" in output


@pytest.mark.parametrize("command", ["train", "trial"])
def test_tensorflows_own_lines_are_not_printed(command: str, strategy: Path, tmp_path: Path) -> None:
    where = ["--out", str(tmp_path / "run")] if command == "train" else ["--workers", "3"]
    arguments = [command, "--model", "mlp", "--strategy", str(strategy), "--backend", "local", "--steps", "2", *where]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    done = subprocess.run(
        [sys.executable, "-m", "autosync", *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert "Median" in done.stdout or "Trained 2 steps" in done.stdout

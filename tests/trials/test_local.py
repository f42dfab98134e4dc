"""Real trials in this process: TensorFlow trains, and the command reports the result."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import pytest
import tensorflow as tf  # loaded before tests/conftest.py splits this process's CPU into devices

from autosync.baselines import BASELINES
from autosync.commands.trial import main
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.spec import ClusterSpec, RuntimeRecord, TimingProtocol
from autosync.zoo import build_task
from tests.contracts.tasks import build
from trials.cluster.discovery import local_cluster
from trials.fleet.local_backend import LocalBackend
from trials.trial import TrialRequest

FAILED, REFUSED = 1, 2
SHORT = ("--backend", "local", "--workers", 2, "--warmup", 1, "--steps", 3)


@pytest.fixture(scope="module")
def cluster() -> ClusterSpec:
    return local_cluster(2)


@pytest.fixture(scope="module")
def strategy_file(cluster: ClusterSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A strategy for the mlp on two workers."""
    strategy = BASELINES["parameter_server"](capture(build_task("mlp")).spec, cluster)
    file = tmp_path_factory.mktemp("strategies") / "one_server.json"
    file.write_text(json.dumps(strategy.to_json()))
    return file


def run(file: Path, *options: object, model: str = "mlp") -> int:
    return main([str(argument) for argument in ("--model", model, "--strategy", file, *SHORT, *options)])


def test_training_that_diverges_is_a_failed_record(cluster: ClusterSpec) -> None:
    captured = capture(build("dense", keras.optimizers.SGD(1e30)))
    backend = LocalBackend(captured.to_bytes(), cluster)
    strategy = BASELINES["all_reduce_25mb"](backend.model, cluster)
    record = backend.run(TrialRequest(strategy, TimingProtocol(warmup_steps=0, timed_steps=5)))
    assert record.outcome == "failed"
    assert record.reason.startswith("The loss is ")
    assert record.reason.endswith("; a trial must keep its loss finite.")


def test_the_record_names_the_versions_that_timed_it(cluster: ClusterSpec) -> None:
    backend = LocalBackend(capture(build_task("mlp")).to_bytes(), cluster)
    strategy = BASELINES["byteps"](backend.model, cluster)
    record = backend.run(TrialRequest(strategy, TimingProtocol(warmup_steps=1, timed_steps=2)))
    assert record.outcome == "ok"
    assert record.versions["tensorflow"] == tf.__version__
    assert record.host


def test_the_command_tells_model_cluster_and_step_time(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(strategy_file) == 0
    out = capsys.readouterr().out
    assert "Model mlp: three dense layers for tests; 13 thousand parameters\n" in out
    assert "Within node0: 8 Gbit/s (assumed), 100 us (assumed)\n" in out
    assert "Steps: 3 of 3 timed, after 1 for warm-up\n" in out
    assert "\nMedian: " in out


def test_the_command_prints_the_record_as_json_and_messages_to_stderr(
    strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(strategy_file, "--json", "--seed", 5) == 0
    printed = capsys.readouterr()
    assert "\nMedian: " in printed.err
    record = RuntimeRecord.from_json(json.loads(printed.out))
    assert (record.outcome, record.purpose, record.label, record.seed) == ("ok", "manual", "one_server", 5)
    assert len(record.step_seconds) == 3


def test_a_quiet_trial_prints_its_median_alone(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(strategy_file, "--quiet") == 0
    outcome, median = capsys.readouterr().out.splitlines()
    assert outcome.endswith(": ok")
    assert median.startswith("Median: ")


def test_a_verbose_trial_prints_every_step(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(strategy_file, "--verbose") == 0
    steps = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Step ")]
    assert [line.partition(":")[0] for line in steps] == ["Step 1", "Step 2", "Step 3"]
    assert run(strategy_file, "--verbose", "--quiet") == REFUSED
    assert capsys.readouterr().err == "trial: --quiet and --verbose exclude each other; leave one of them out.\n"


def test_a_trial_that_fails_is_told_and_is_no_success(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(strategy_file, "--time-limit", 1e-6) == FAILED
    assert "\nReason: The trial's 1e-06 s were over after 0 of 4 steps.\n" in capsys.readouterr().out


def test_a_strategy_that_does_not_fit_is_refused_with_its_first_fault(
    strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(strategy_file, "--workers", 1, "--json") == REFUSED
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].startswith("trial: Replica 'node0/cpu:1' is not in the cluster.")


def test_a_model_function_that_raises_is_refused_with_its_own_words(
    strategy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raising_locally.py").write_text("def make():\n    raise RuntimeError('no data today')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert run(strategy_file, model="raising_locally:make") == REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("trial: The function 'raising_locally:make', called without arguments, failed: ")
    assert "RuntimeError: no data today" in line

"""The command `autosync trial`: its refusals before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.commands.trial import main, target_lines
from autosync.errors import SpecError
from autosync.spec import CutOff, DeviceProfile, Discipline, Target, TargetRecord
from tests import cases
from tests.cases import star_cluster
from tests.trials.scripted import request
from trials.clock import Environment, WallClock
from trials.opening import trials_on_ray
from trials.to_target import TargetRequest
from trials.trial import TrialSetup

REFUSED = 2


@pytest.fixture
def strategy_file(tmp_path: Path) -> Path:
    file = tmp_path / "strategy.json"
    file.write_text(json.dumps(request().strategy.to_json() | {"summary": ["Everything on one server."]}))
    return file


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr with which `arguments` are refused."""
    assert main([str(word) for word in arguments]) == REFUSED
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


def test_an_unknown_model_is_refused_with_the_names_there_are(
    strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, question in (("nosuch", ""), ("bert-nosuch", " Did you mean 'bert-mini'?")):
        line = refused(capsys, "--model", name, "--strategy", strategy_file)
        assert line.startswith(f"trial: No model is called {name!r}.{question} Known: bert, bert-base,")


def test_a_missing_strategy_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nosuch.json"
    line = refused(capsys, "--model", "mlp", "--strategy", file)
    assert line == f"trial: Strategy file '{file}' cannot be read: No such file or directory."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"not JSON", "must be JSON, but: Expecting value"),
        (b"\xff\xfe\x00", "must be JSON, but: "),
        (b"[]", "must be a JSON object, not list."),
        (b'{"format": "autosync.strategy/9"}', "A strategy file says format 'autosync.strategy/1', but this one says"),
        (b'{"format": "autosync.strategy/1"}', "A strategy needs the field 'replicas'."),
        (b'{"format": "autosync.strategy/1", "colour": 1}', "A strategy has the unknown field 'colour'."),
    ],
)
def test_a_broken_strategy_file_is_refused(
    text: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "strategy.json"
    file.write_bytes(text)
    assert told in refused(capsys, "--model", "mlp", "--strategy", file)


def test_a_strategy_with_a_discipline_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "local.json"
    file.write_text(json.dumps(request().strategy.to_json() | {"discipline": {"rhythm": {"steps": 8}}}))
    line = refused(capsys, "--model", "mlp", "--strategy", file)
    assert line.startswith("trial: Step times cannot rank a strategy with a discipline, whose steps differ")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("0.08", "--target is a metric and a number such as loss=0.08, not '0.08'."),
        ("loss=little", "--target is a metric and a number such as loss=0.08, not 'loss=little'."),
        ("accuracy=0.9", "The metric of a target is one of loss, not 'accuracy'."),
    ],
)
def test_a_target_that_is_none_is_refused(
    target: str, told: str, strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "--task", "digits", "--strategy", strategy_file, "--target", target)


def test_training_to_a_target_says_how_it_went_and_where_the_record_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = [f"{layer}/{part}" for layer in ("hidden", "logits") for part in ("kernel", "bias")]
    file, out = tmp_path / "seldom.json", tmp_path / "targets"
    document = {
        "format": "autosync.strategy/1",
        "replicas": ["node0/cpu:0", "node0/cpu:1"],
        "variables": [{"variable": name, "shards": [{"all_reduce": 0}]} for name in variables],
        "discipline": {"rhythm": {"steps": 4}},
    }
    file.write_text(json.dumps(document))
    options = ["--task", "digits", "--strategy", file, "--backend", "local", "--workers", 2, "--out", out]
    assert main([str(word) for word in (*options, "--target", "loss=1.5", "--seed", 2)]) == 0
    told = capsys.readouterr().out
    assert "replicas average parameters every 4 steps" in told
    assert "seed 2: reached" in told
    (written,) = out.iterdir()
    assert f"The record is in {written}." in told
    record = TargetRecord.from_json(json.loads(written.read_text()))
    assert (record.model.name, record.seed, record.label) == ("digits", 2, "seldom")
    assert f"after {record.steps} steps" in told
    assert main([str(word) for word in (*options, "--target", "loss=0", "--most-steps", 10)]) == 1
    assert "not reached" in capsys.readouterr().out
    assert len(list(out.iterdir())) == 2


def test_what_was_lost_with_its_process_is_told_though_nothing_was_counted() -> None:
    wanted = replace(request().strategy, discipline=Discipline(waits=CutOff(1)))
    towards = TargetRequest(wanted, Target("loss", 0.1))
    stage = TrialSetup(cases.mlp_model(), cases.local_cluster(2), WallClock(), Environment())
    record = towards.record(stage, 1.0, "lost", reason="A process has died.", total_seconds=3.0)
    assert "Reason: A process has died." in list(target_lines(record))


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(
    tmp_path: Path, strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    options = ("--task", "digits", "--strategy", strategy_file, "--target", "loss=1", "--out", tmp_path / "file" / "in")
    assert "cannot be made: Not a directory; name another." in refused(capsys, *options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--steps", 0), "A trial has 0 or more warm-up steps and 1 or more timed steps"),
        (("--time-limit", 0), "A trial's time limit must be positive"),
        (("--time-limit", "inf"), "A trial's time limit must be positive and finite"),
        (("--workers", 0), "Invalid value for '--workers': 0 is not in the range"),
        (("--backend", "cloud"), "Invalid value for '--backend': 'cloud' is not one of 'ray', 'local'."),
        (("--steps", "many"), "Invalid value for '--steps': 'many' is not a valid integer."),
        (("--colour", "red"), "--colour"),
    ],
)
def test_an_option_out_of_range_is_refused(
    options: tuple[object, ...], told: str, strategy_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, "--model", "mlp", "--strategy", strategy_file, *options)


def test_model_and_strategy_must_be_given(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--strategy", strategy_file) == "trial: Missing option '--model' / '--task'."
    assert refused(capsys, "--model", "mlp") == "trial: Missing option '--strategy'."


def test_a_ray_cluster_that_does_not_answer_is_refused(strategy_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--model", "mlp", "--strategy", strategy_file, "--address", "127.0.0.1:1")
    assert line.startswith("trial: No Ray cluster answers at '127.0.0.1:1' (ConnectionRefusedError:")
    assert line.endswith("check --address and RAY_ADDRESS, or run `ray start --head` there.")


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--strategy PATH" in capsys.readouterr().out


def test_an_own_model_that_is_not_captured_in_time_is_refused(
    strategy_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.py").write_text("import time\n\ndef make():\n    time.sleep(1e6)\n")
    options = (
        "--model",
        "endless:make",
        "--strategy",
        strategy_file,
        "--backend",
        "local",
        "--capture-time-limit",
        0.2,
    )
    assert refused(capsys, *options).startswith("trial: Building and capturing 'endless:make' must take no longer than")


def test_a_profile_is_refused_where_no_pass_is_paced_and_where_it_is_none(
    strategy_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "profile.json"
    options = ("--model", "mlp", "--strategy", strategy_file, "--profile", file)
    assert refused(capsys, *options, "--backend", "local").endswith(
        "--profile is for paced passes, which local back ends do not have; leave it out."
    )
    assert (
        refused(capsys, *options) == f"trial: Profile '{file}' cannot be read: No such file or directory; name a file."
    )
    file.write_text('{"device": "H100"}')
    assert refused(capsys, *options).startswith("trial: A device profile needs the field 'versions'.")


def test_a_profile_is_refused_on_a_cluster_whose_passes_are_real() -> None:
    device = DeviceProfile("H100", {"driver": "570"}, 32, "float32", "2026-11-20", 0.01, 0.02, {})
    with pytest.raises(SpecError, match="--profile applies to paced passes, but no node of this cluster is paced"):
        trials_on_ray(star_cluster(2), profile=device)

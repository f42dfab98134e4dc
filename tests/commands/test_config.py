"""`--config`: options from a file with the same names, less strong than options on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from autosync.commands import main
from autosync.commands.train import command as train
from autosync.commands.tune import command as tune
from tests.commands.test_suggestions import refused

CONFIGURED = ("tune", "train", "trial", "race", "replay", "pretrain", "profile")


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> str:
    Path("run.yaml").write_text(text)
    return "run.yaml"


def read(text: str, *arguments: str) -> dict[str, Any]:
    """The parameters of `tune` with the options of the file `text`, and `arguments`."""
    return tune.make_context("tune", ["--config", write(text), *arguments]).params


def test_options_from_a_file_are_those_of_the_command_line() -> None:
    typed = tune.make_context(
        "tune",
        shlex.split(
            "--model mlp --time-budget 1.5 --without-rule a --without-rule b --no-probe --tuned-all-reduce --out run "
            "--emulate 4x200mbit --try-first s.json --json"
        ),
    ).params
    written = read(
        "task: mlp\ntime-budget: 1.5\nwithout-rule: [a, b]\nprobe: false\ntuned-all-reduce: true\nout: run\n"
        "emulate: 4x200mbit\ntry-first: s.json\njson: true\n"
    )
    assert written == typed


def test_stated_options_take_precedence() -> None:
    read_in = read("model: mlp\ntrials: 5\nprobe: false\nwithout-rule: [a]\n", "--trials", "7", "--without-rule", "b")
    assert (read_in["model"], read_in["trials"], read_in["probe"]) == ("mlp", 7, False)
    assert read_in["without_rules"] == ("b",)
    assert read("model: mlp\nprobe: false\n", "--probe")["probe"] is True


def test_a_required_option_may_come_from_the_file() -> None:
    params = train.make_context("train", ["--config", write("model: mlp\nstrategy: s.json\nsteps: 3\n")]).params
    assert (params["model"], params["strategy"], params["steps"]) == ("mlp", Path("s.json"), 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "model: mlp\ntrails: 3\n",
            "tune has no option 'trails'; list its options with --help. Did you mean 'trials'?",
        ),
        ("model: mlp\n7: 3\n", "tune has no option 7; list its options with --help."),
        ("config: other.yaml\n", "tune has no option 'config'; list its options with --help."),
        ("time_budget: 3\n", "has no option 'time_budget'; list its options with --help. Did you mean 'time-budget'?"),
        ("- model\n", "--config run.yaml must be a map of options to values, such as `trials: 50`."),
        ("model: [mlp]\n", "model must be a text or a number, not ['mlp']; leave it out for the default."),
        ("model: mlp\nspace: true\n", "space must be a text or a number, not True; leave it out for the default."),
        ("resume: 1\n", "resume must be true or false, not 1."),
        ("model: mlp\ntrials: 2.5\n", "Invalid value for '--trials': '2.5' is not a valid integer."),
        (
            "model: &a mlp\n",
            "--config run.yaml, line 1: anchors and aliases are not read, but &a is one; write it out.",
        ),
        ("model: mlp\nmodel: bert\n", "--config run.yaml, line 2: key 'model' comes twice; keep one."),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(
    text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "tune", "--config", write(text)).endswith(sentence)


def test_a_file_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refused(capsys, "tune", "--config", "nowhere.yaml")
    assert sentence == (
        "tune: --config nowhere.yaml cannot be read: No such file or directory; name a YAML file of options."
    )


@pytest.mark.parametrize("name", CONFIGURED)
def test_commands_with_many_options_take_a_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--config", write("nonsense-xyz: 1\n")]) == 2
    assert f"{name} has no option 'nonsense-xyz'" in capsys.readouterr().err

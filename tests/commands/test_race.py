"""`autosync race` checks its options before anything is started."""

from __future__ import annotations

import pytest

from autosync.commands.race import main
from autosync.race.command import options_of
from autosync.race.options import RaceOptions


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Missing option '--target'."),
        (("--target", "1"), "--target is a metric and a number such as loss=0.08, not '1'."),
        (("--target", "loss=1", "--resume"), "--resume needs --out; name the directory of the race to resume."),
        (
            ("--target", "loss=1", "--seeds", "1"),
            "--seeds must be from 2, for an interval, to 100, not 1.",
        ),
        (("--target", "loss=1", "--searcher", "tpe"), "No such option '--searcher'."),
        (
            ("--target", "loss=1", "--workers", "2", "--emulate", "2x1gbit"),
            "--workers and --emulate exclude each other",
        ),
    ],
)
def test_a_race_that_cannot_be_is_refused(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--task", "digits", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"race: {sentence}")
    assert told.err.count("\n") == 1


def test_the_command_has_the_defaults_of_the_options() -> None:
    from autosync.commands.race import command

    parameters = command.make_context("race", ["--model", "digits", "--target", "loss=0.1"]).params
    out = parameters.pop("out")
    options = options_of(out, parameters)
    assert options == RaceOptions("digits", options.target, options.out)
    assert options.out.parent.name == "runs"

"""Exit statuses are those that the docs list, and a command ends with each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from autosync.commands import main
from autosync.commands.shell import FAULT, INTERRUPTED, NOT_DONE, REFUSED, run_command
from autosync.terminal import BROKEN_PIPE
from autosync.train.job import FAILED
from autosync.train.job import INTERRUPTED as TRAINING_INTERRUPTED
from autosync.tune.session import HEADLESS
from tests.commands.documented import page, statuses


def test_the_docs_list_every_status() -> None:
    assert statuses() == {0, NOT_DONE, REFUSED, HEADLESS, FAULT, INTERRUPTED, BROKEN_PIPE}
    assert (FAILED, TRAINING_INTERRUPTED) == (NOT_DONE, INTERRUPTED)
    assert "143 or 129" in page()


def ending(error: BaseException | None) -> click.Command:
    """A command that ends with `error`."""

    @click.command("ending")
    def command() -> None:
        if error is not None:
            raise error

    return command


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (click.UsageError("An option is wrong."), REFUSED),
        (OSError(28, "No space left on device", "file"), REFUSED),
        (KeyboardInterrupt(), INTERRUPTED),
        (ZeroDivisionError("a bug"), FAULT),
    ],
)
def test_the_end_of_a_command_has_a_status(
    error: BaseException | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the traceback of the bug
    assert run_command(ending(error), []) == status


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (lambda: main(["runs", "schema"]), 0),
        (lambda: main(["--help"]), 0),
        (lambda: main(["runs", "show", "nowhere"]), REFUSED),
        (lambda: main([]), REFUSED),
    ],
)
def test_a_real_command_ends_with_its_status(run: Callable[[], int], status: int) -> None:
    assert run() == status

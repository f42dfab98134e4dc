"""Training on a full disk ends with a sentence, and the last checkpoint stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests.architecture.source_tree import ROOT
from tests.tune.test_killed import STRATEGY

SMALL_DISK = ("unshare", "-rm", "sh", "-c")

ON_SMALL_DISK = """
mount -t tmpfs -o size=$1 tmpfs disk && cd disk && shift || exit 77
"$@"
status=$?
cp -r run .. 2> /dev/null
exit $status
"""


def can_mount() -> bool:
    try:
        mounting = [*SMALL_DISK, "mount -t tmpfs tmpfs /mnt"]
        return subprocess.run(mounting, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not can_mount(), reason="This user may mount no file system of its own.")


def trained(folder: Path, size: str, *arguments: str) -> tuple[int, str, str]:
    """Return exit status, output and error of a training on a disk of `size`; its run is copied to `folder`/run."""
    (folder / "disk").mkdir()
    (folder / "strategy.json").write_text(json.dumps(STRATEGY))
    command = [sys.executable, "-m", "autosync", "train", "--model", "mlp", "--strategy", "../strategy.json"]
    command += ["--backend", "local", "--out", "run", "--log-every", "1", *arguments]
    done = subprocess.run(
        [*SMALL_DISK, ON_SMALL_DISK, "sh", size, *command],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        ("100k", []),
        ("200k", ["step-00000020.keras"]),
        ("300k", ["step-00000020.keras", "step-00000040.keras"]),
    ],
)
def test_the_last_checkpoint_that_fits_stays(tmp_path: Path, size: str, kept: list[str]) -> None:
    status, printed, told = trained(tmp_path, size, "--steps", "100", "--checkpoint-every", "20")
    assert status == 1
    (sentence,) = [line for line in told.splitlines() if line.startswith("train: ")]
    assert "cannot be written: No space left on device; free the disk." in sentence
    newest = f"The newest checkpoint is run/checkpoints/{kept[-1]}." if kept else "No checkpoint was saved."
    assert newest in printed
    assert printed.rstrip().endswith("--resume")
    files = sorted((tmp_path / "run/checkpoints").iterdir())
    assert [file.name for file in files] == kept
    for file in files:
        keras.models.load_model(file)


def test_a_model_that_cannot_be_saved_at_the_end_is_told_as_well(tmp_path: Path) -> None:
    status, printed, told = trained(tmp_path, "200k", "--steps", "30", "--checkpoint-every", "20")
    assert status == 1
    assert "train: The checkpoint run/checkpoints/step-00000030.keras cannot be written: No space left" in told
    assert "The newest checkpoint is run/checkpoints/step-00000020.keras." in printed
    assert printed.rstrip().endswith("--resume")


def test_a_line_of_the_log_that_finds_no_room_ends_training_in_a_sentence(tmp_path: Path) -> None:
    status, printed, told = trained(tmp_path, "144k", "--steps", "2000", "--checkpoint-every", "20")
    assert status == 1
    assert "cannot be written: No space left on device; free the disk" in told
    assert "The newest checkpoint is run/checkpoints/step-00000020.keras." in printed

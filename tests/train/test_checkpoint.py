"""A checkpoint is one file, replaced atomically, and keeps state that Keras does not know."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from autosync.errors import TrainingError
from autosync.train.checkpoint import Extras, read_extras, write_checkpoint
from autosync.train.checkpoint_folder import Checkpoints

EXTRAS = Extras(
    steps=7,
    strategy="ab",
    replica_state=((np.arange(3, dtype="uint32"),), (np.ones((2, 1), ml_dtypes.bfloat16),)),
    replica_steps=(7, 7),
    synchronizer_state=(np.float32(0.5) * np.ones(()), np.zeros((0, 2))),
    own=(np.arange(4.0),),
    controller={"apart": 3},
)


def a_zip(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", "{}")


def test_extras_come_back_as_they_were(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.keras", a_zip, EXTRAS)
    extras = read_extras(tmp_path / "a.keras")
    assert extras is not None
    assert (extras.steps, extras.strategy, extras.replica_steps) == (7, "ab", (7, 7))
    assert extras.controller == {"apart": 3}
    written, read = (
        [*state.replica_state[0], *state.replica_state[1], *state.synchronizer_state, *state.own]
        for state in (EXTRAS, extras)
    )
    for expected, array in zip(written, read, strict=True):
        assert (array.dtype, array.shape, array.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.keras", a_zip, EXTRAS)

    def fails(file: Path) -> None:
        a_zip(file)
        raise OSError(28, "No space left on device")

    with pytest.raises(TrainingError, match=r"a\.keras cannot be written: No space left on device; free the disk\."):
        write_checkpoint(tmp_path / "a.keras", fails, dataclasses.replace(EXTRAS, steps=8))
    extras = read_extras(tmp_path / "a.keras")
    assert extras is not None
    assert extras.steps == 7
    assert [path.name for path in tmp_path.iterdir()] == ["a.keras"]


def test_a_file_of_keras_alone_has_no_extras(tmp_path: Path) -> None:
    a_zip(tmp_path / "a.keras")
    assert read_extras(tmp_path / "a.keras") is None


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.keras").write_text("text")
    with pytest.raises(TrainingError, match=r"a\.keras' must be a \.keras file, but: File is not a zip file\."):
        read_extras(tmp_path / "a.keras")
    with pytest.raises(TrainingError, match=r"none\.keras' cannot be read: No such file or directory\."):
        read_extras(tmp_path / "none.keras")
    with pytest.raises(TrainingError, match=r"name must end in \.keras, but 'a\.h5' does not\."):
        write_checkpoint(Path("a.h5"), a_zip, EXTRAS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "at most 64 nested brackets"),
        ('{"format": 1, "format": 2}', "key 'format' comes twice"),
        ('{"steps": ' + "9" * 10_000_000 + "}", "at most 64 digits"),
        ("{}", "must be a .keras file, but: 'format'"),
        (f'{{"format": "{"x" * 10_000_000}"}}', "its training state has format 'xxx"),
    ],
    ids=["nested", "twice", "digits", "empty", "long"],
)
def test_a_checkpoint_whose_training_state_is_hostile_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        archive.writestr("autosync/training.json", text)
    with pytest.raises(TrainingError) as caught:
        read_extras(tmp_path / "a.keras")
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_the_newest_checkpoint_is_the_one_of_most_steps(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, every=5)
    assert kept.latest() is None
    for steps in (99_999_995, 5, 100):
        a_zip(tmp_path / f"step-{steps:08d}.keras")
    assert kept.latest() == tmp_path / "step-99999995.keras"


def test_members_whose_names_lead_out_of_the_archive_make_no_file(tmp_path: Path) -> None:
    """Members are read by name and never extracted."""
    file = tmp_path / "in" / "a.keras"
    write_checkpoint(file, a_zip, EXTRAS)
    with zipfile.ZipFile(file, "a") as archive:
        for name in ("../../outside", "/tmp/autosync-outside", "assets/../../outside", "autosync/../../outside"):
            archive.writestr(name, "evil")
    extras = read_extras(file)
    assert extras is not None
    assert extras.steps == EXTRAS.steps
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a.keras"]
    assert not Path("/tmp/autosync-outside").exists()

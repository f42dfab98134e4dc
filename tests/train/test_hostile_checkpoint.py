"""Checkpoints whose members are damaged, or unpack to far more than the file, are refused before they are unpacked."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosync.errors import TrainingError
from autosync.train.checkpoint import DOCUMENT, Extras, read_extras, write_checkpoint

EXTRAS = Extras(
    steps=3,
    strategy="digest",
    replica_state=((np.arange(4, dtype=np.float32),),) * 2,
    replica_steps=(3, 3),
    synchronizer_state=(np.ones((2, 3)),),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    def save(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", "{}")

    write_checkpoint(tmp_path / "c.keras", save, EXTRAS)
    return tmp_path / "c.keras"


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(file: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def test_a_whole_checkpoint_is_read(file: Path) -> None:
    extras = read_extras(file)
    assert extras is not None
    assert (extras.steps, extras.replica_steps) == (3, (3, 3))
    assert extras.synchronizer_state[0].tolist() == [[1.0] * 3] * 2


def with_document(**changes: object) -> Callable[[Path], None]:
    def do(file: Path) -> None:
        content = members(file)
        content[DOCUMENT] = json.dumps({**json.loads(content[DOCUMENT]), **changes}).encode()
        rewritten(file, content)

    return do


def without(name: str) -> Callable[[Path], None]:
    return lambda file: rewritten(file, {key: data for key, data in members(file).items() if key != name})


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    at = data.index(np.arange(4, dtype=np.float32).tobytes())
    data[at + 5] ^= 255
    file.write_bytes(data)


def bomb(file: Path) -> None:
    content = members(file)
    rewritten(file, {**content, "model.weights.h5": bytes(200 << 20)}, zipfile.ZIP_DEFLATED)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "no zip": lambda file: file.write_bytes(b"PK\x03\x04" * 99),
    "a bit flipped": flipped,
    "no state": without("autosync/synchronizer/0"),
    "short state": lambda file: rewritten(file, {**members(file), "autosync/synchronizer/0": b"123"}),
    "long state": lambda file: rewritten(file, {**members(file), "autosync/synchronizer/0": bytes(1 << 20)}),
    "compressed state": lambda file: rewritten(file, members(file), zipfile.ZIP_DEFLATED),
    "unknown dtype": with_document(synchronizer_state=[["nonsense", [1]]]),
    "objects": with_document(synchronizer_state=[["O", [6]]]),
    "endless shape": with_document(synchronizer_state=[["float64", [10**30, 10**30]]]),
    "negative shape": with_document(synchronizer_state=[["float64", [-2, -3]]]),
    "no shape": with_document(synchronizer_state=[7]),
    "text for steps": with_document(steps="many"),
    "text for replicas": with_document(replica_steps="ab"),
    "no lists": with_document(replica_state=3),
    "other format": with_document(format="autosync.training/" + "9" * 5000),
    "a bomb": bomb,
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "nothing": lambda file: file.unlink(),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_one_sentence(file: Path, name: str) -> None:
    DAMAGES[name](file)
    with pytest.raises(TrainingError) as refused:
        read_extras(file)
    said = str(refused.value)
    assert str(file) in said
    assert said.endswith(".")
    assert len(said) < 500

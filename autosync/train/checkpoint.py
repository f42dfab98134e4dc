"""Checkpoints: files in Keras' own format, with state that Keras does not know as extra members of the same archive.

A .keras file is a zip of JSON and HDF5, and Keras passes over members it does not know. So one file, replaced in one
go, is both what `keras.models.load_model` reads and all that training needs to go on as if it had never stopped.
"""

import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.errors import TrainingError, WriteError
from autosync.files import made_folder, opened_to_read, replacing
from autosync.spec import STATE, cut, parse_json, quoted
from autosync.spec.codec import every, optional, required

Array = npt.NDArray[Any]

DOCUMENT = "autosync/training.json"
FORMAT = "autosync.training/1"

LEAST_UNPACKED, MOST_TIMES = 64 << 20, 10
"""Bytes that any archive may unpack to, and how many times its own size a larger one may. Keras compresses nothing."""

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of `zipfile` and NumPy for members that are damaged; an unknown compression is a `RuntimeError`."""


@dataclass(frozen=True)
class Extras:
    """The state in a checkpoint that is neither model nor optimizer.

    `steps` counts the finished steps. The rest is as in the engine's `StepState`; from `synchronizer_state` on it means
    something to the strategy with digest `strategy` only.
    """

    steps: int
    strategy: str
    replica_state: tuple[tuple[Array, ...], ...]
    replica_steps: tuple[int, ...]
    synchronizer_state: tuple[Array, ...]
    own: tuple[Array, ...] = ()
    controller: Mapping[str, Any] | None = None


def write_checkpoint(file: Path, save: Callable[[Path], None], extras: Extras) -> None:
    """Let `save` write a .keras file, add `extras`, and replace `file` by it atomically. Raises `TrainingError`."""
    if file.suffix != ".keras":
        raise TrainingError(f"A checkpoint's name must end in .keras, but {str(file)!r} does not.")
    try:
        made_folder(file.parent)
        with replacing(file, durable=True, suffix=".keras") as stream:
            save(Path(stream.name))
            with zipfile.ZipFile(stream.name, "a", zipfile.ZIP_STORED) as archive:
                _write(archive, extras)
    except WriteError as error:
        raise TrainingError(f"The checkpoint {error}") from None


def read_extras(file: Path) -> Extras | None:
    """The state that `write_checkpoint` added, or None for a file that Keras alone wrote. Raises `TrainingError`."""
    try:
        with opened_to_read(file) as stream, zipfile.ZipFile(stream) as archive:
            _check_sizes(archive, os.fstat(stream.fileno()).st_size)
            return _read(archive) if DOCUMENT in archive.namelist() else None
    except OSError as error:
        raise TrainingError(f"The checkpoint {str(file)!r} cannot be read: {error.strerror or error}.") from None
    except DAMAGE as error:
        raise TrainingError(f"{str(file)!r} must be a .keras file, but: {cut(str(error)).rstrip('.')}.") from None


def _write(archive: zipfile.ZipFile, extras: Extras) -> None:
    document = {
        "format": FORMAT,
        "steps": extras.steps,
        "strategy": extras.strategy,
        "replica_steps": extras.replica_steps,
        "replica_state": [_described(each) for each in extras.replica_state],
        "synchronizer_state": _described(extras.synchronizer_state),
        "own": _described(extras.own),
        "controller": extras.controller,
    }
    archive.writestr(DOCUMENT, json.dumps(document))
    for name, arrays in _groups(extras):
        for index, array in enumerate(arrays):
            archive.writestr(f"autosync/{name}/{index}", np.ascontiguousarray(array).tobytes())


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Raise `ValueError` for members that unpack to far more than the `size` bytes of the file."""
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(LEAST_UNPACKED, MOST_TIMES * size):
        raise ValueError(f"its members unpack to {unpacked} bytes from {size}; Keras writes them as they are")


def _stored(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """The array in a member. Raises `ValueError` before reading if the member has another size."""
    member, wanted = archive.getinfo(name), dtype.itemsize * math.prod(shape)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != wanted:
        raise ValueError(f"its {name} must have {wanted} bytes as they are")
    return np.frombuffer(archive.read(member), dtype).reshape(shape)


def _read(archive: zipfile.ZipFile) -> Extras:
    if archive.getinfo(DOCUMENT).file_size > STATE.size:
        raise ValueError(f"its {DOCUMENT} has more than {STATE.size >> 20} MiB")
    document = parse_json(archive.read(DOCUMENT), f"its {DOCUMENT}", limits=STATE)
    if document["format"] != FORMAT:
        raise ValueError(f"its training state has format {quoted(document['format'])}, not {FORMAT!r}")

    def arrays(name: str, described: Sequence[Any]) -> tuple[Array, ...]:
        return tuple(
            _stored(archive, f"autosync/{name}/{index}", np.dtype(dtype), shape)
            for index, (dtype, shape) in enumerate(described)
        )

    return Extras(
        steps=required(document, "steps", int, "A training state"),
        strategy=required(document, "strategy", str, "A training state"),
        replica_state=tuple(arrays(f"replica{r}", each) for r, each in enumerate(document["replica_state"])),
        replica_steps=tuple(every(document, "replica_steps", int, "A training state")),
        synchronizer_state=arrays("synchronizer", document["synchronizer_state"]),
        own=arrays("own", document.get("own", ())),
        controller=optional(document, "controller", dict, "A training state"),
    )


def _groups(extras: Extras) -> list[tuple[str, Sequence[Array]]]:
    replicas = [(f"replica{number}", arrays) for number, arrays in enumerate(extras.replica_state)]
    return [*replicas, ("synchronizer", extras.synchronizer_state), ("own", extras.own)]


def _described(arrays: Sequence[Array]) -> list[tuple[str, tuple[int, ...]]]:
    """Names of dtypes and shapes; by name, since NumPy's own format forgets what bfloat16 is."""
    return [(str(each.dtype), each.shape) for each in arrays]

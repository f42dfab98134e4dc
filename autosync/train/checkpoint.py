"""Reads and writes checkpoints: .keras files with extra archive members for the state that Keras does not know.

A .keras file is a zip archive of JSON and HDF5, and Keras ignores unknown members. One file, replaced atomically, can
therefore be read by `keras.models.load_model` and also holds all state that training needs to resume exactly.
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

from autosync.errors import TrainingError, WriteError
from autosync.files import make_folder, open_to_read, replacing
from autosync.numeric import AnyArray
from autosync.spec import STATE, cut, parse_json, quote
from autosync.spec.codec import read_list, read_optional, read_required

DOCUMENT = "autosync/training.json"
FORMAT = "autosync.training/1"

LEAST_UNPACKED, MOST_TIMES = 64 << 20, 10
"""An archive may unpack to 64 MiB, or to 10 times its file size if that is more. Keras itself does not compress."""

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
"""Errors that `zipfile` and NumPy raise for damaged members; an unknown compression is a `RuntimeError`."""


@dataclass(frozen=True)
class Extras:
    """The state in a checkpoint that is neither model nor optimizer, as in the engine's `StepState`.

    `synchronizer_state`, `own` and `controller` are valid only for the strategy whose digest is `strategy`.
    """

    steps: int
    """The number of finished steps."""
    strategy: str
    """The digest of the strategy."""
    replica_state: tuple[tuple[AnyArray, ...], ...]
    """The untrained state of each replica, such as moving statistics."""
    replica_steps: tuple[int, ...]
    """The number of synthetic batches that each replica has drawn."""
    synchronizer_state: tuple[AnyArray, ...]
    """The memory of compressors and of loss scaling."""
    own: tuple[AnyArray, ...] = ()
    """The values and slots of every replica, if replicas may differ; otherwise empty."""
    controller: Mapping[str, Any] | None = None
    """The controller's state as JSON; None without a controller."""


def write_checkpoint(file: Path, save: Callable[[Path], None], extras: Extras) -> None:
    """Let `save` write a .keras file, add `extras`, and replace `file` atomically. Raises `TrainingError`."""
    if file.suffix != ".keras":
        raise TrainingError(f"A checkpoint's name must end in .keras, but {str(file)!r} does not.")
    try:
        make_folder(file.parent)
        with replacing(file, durable=True, suffix=".keras") as stream:
            save(Path(stream.name))
            with zipfile.ZipFile(stream.name, "a", zipfile.ZIP_STORED) as archive:
                _write(archive, extras)
    except WriteError as error:
        raise TrainingError(f"The checkpoint {error}") from None


def read_extras(file: Path) -> Extras | None:
    """Return the state added by `write_checkpoint`; None for a file written by Keras alone. Raises `TrainingError`."""
    try:
        with open_to_read(file) as stream, zipfile.ZipFile(stream) as archive:
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
        "replica_state": [_describe(arrays) for arrays in extras.replica_state],
        "synchronizer_state": _describe(extras.synchronizer_state),
        "own": _describe(extras.own),
        "controller": extras.controller,
    }
    archive.writestr(DOCUMENT, json.dumps(document))
    for name, arrays in _groups(extras):
        for index, array in enumerate(arrays):
            archive.writestr(f"autosync/{name}/{index}", np.ascontiguousarray(array).tobytes())


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Raise `ValueError` if members would unpack to far more than the `size` bytes of the file."""
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(LEAST_UNPACKED, MOST_TIMES * size):
        raise ValueError(f"its members unpack to {unpacked} bytes from {size}; Keras writes them as they are")


def _read_member(archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> AnyArray:
    """Return the array of a member. Raises `ValueError` before reading if the member has another size."""
    member, wanted = archive.getinfo(name), dtype.itemsize * math.prod(shape)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != wanted:
        raise ValueError(f"its {name} must have {wanted} bytes as they are")
    return np.frombuffer(archive.read(member), dtype).reshape(shape)


def _read(archive: zipfile.ZipFile) -> Extras:
    if archive.getinfo(DOCUMENT).file_size > STATE.size:
        raise ValueError(f"its {DOCUMENT} has more than {STATE.size >> 20} MiB")
    document = parse_json(archive.read(DOCUMENT), f"its {DOCUMENT}", limits=STATE)
    if document["format"] != FORMAT:
        raise ValueError(f"its training state has format {quote(document['format'])}, not {FORMAT!r}")

    def arrays(name: str, described: Sequence[Any]) -> tuple[AnyArray, ...]:
        return tuple(
            _read_member(archive, f"autosync/{name}/{index}", np.dtype(dtype), shape)
            for index, (dtype, shape) in enumerate(described)
        )

    return Extras(
        steps=read_required(document, "steps", int, "A training state"),
        strategy=read_required(document, "strategy", str, "A training state"),
        replica_state=tuple(arrays(f"replica{r}", described) for r, described in enumerate(document["replica_state"])),
        replica_steps=tuple(read_list(document, "replica_steps", int, "A training state")),
        synchronizer_state=arrays("synchronizer", document["synchronizer_state"]),
        own=arrays("own", document.get("own", ())),
        controller=read_optional(document, "controller", dict, "A training state"),
    )


def _groups(extras: Extras) -> list[tuple[str, Sequence[AnyArray]]]:
    replicas = [(f"replica{number}", arrays) for number, arrays in enumerate(extras.replica_state)]
    return [*replicas, ("synchronizer", extras.synchronizer_state), ("own", extras.own)]


def _describe(arrays: Sequence[AnyArray]) -> list[tuple[str, tuple[int, ...]]]:
    """Return names of dtypes and shapes.

    NumPy's own file format does not keep bfloat16, so dtypes are stored by name.
    """
    return [(str(array.dtype), array.shape) for array in arrays]

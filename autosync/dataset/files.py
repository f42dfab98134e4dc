"""Whole files of records: list, read, and write them so that a crash leaves a complete file or none.

The files are in this machine's file system or at an address (`remote.py`).
"""

import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from autosync.dataset.parquet import parquet_bytes, plain, read_table, write_table
from autosync.dataset.remote import failure_in_words, remote_at
from autosync.dataset.schema import SCHEMA, Schema
from autosync.errors import DatasetError, WriteError
from autosync.files import replacing, writable_folder
from autosync.files.writing import FULL_DISK, TEMPORARY_PREFIX, TEMPORARY_SUFFIX, temporary_beside
from autosync.spec.address import Address, Place

SUFFIX = ".parquet"
PROOF = b"autosync can write here"
IGNORED_PREFIXES = (".", "_")
"""Prefixes of names that pandas, pyarrow and Ray Data skip in a directory of Parquet files. Temporary files
have one.
"""


def list_files(directory: Place) -> list[Place]:
    """Return the files of records in `directory`, by name; at an address, an empty list if nothing was written yet.

    Raises `DatasetError` if the directory cannot be listed or contains other files, because readers of the plain
    directory would fail on them.
    """
    if isinstance(directory, Address):
        return _check_files([directory / name for name in _sizes(directory) if not name.startswith(IGNORED_PREFIXES)])
    try:
        paths = [path for path in sorted(directory.iterdir()) if not path.name.startswith(IGNORED_PREFIXES)]
    except OSError as error:
        raise DatasetError(
            f"No records can be read from {directory}: {error.strerror}. Give a directory that autosync wrote."
        ) from None
    return _check_files(list(paths))


def records_folder(data: Place) -> Place | None:
    """Return the folder of records that `data` names: its folder `records`, or `data` itself; None without such a
    folder.
    """
    inside = data / "records"
    if isinstance(inside, Path):
        folder = inside if inside.is_dir() else data
        return folder if isinstance(folder, Path) and folder.is_dir() else None
    return inside if list_files(inside) else data


def with_bytes(directory: Place) -> Iterator[tuple[Place, int]]:
    """Yield the files of `list_files` with their sizes. Raises the errors of `list_files`, and `FileNotFoundError`."""
    sizes = _sizes(directory) if isinstance(directory, Address) else {}
    for path in list_files(directory):
        yield path, path.stat().st_size if isinstance(path, Path) else sizes.get(path.name, 0)


def read_file(path: Place, schema: Schema = SCHEMA, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table of `read_encoded`, with the text in every row. Raises the errors of `read_encoded`."""
    return plain(read_encoded(path, schema, columns), str(path))


def read_encoded(path: Place, schema: Schema = SCHEMA, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of one file, upgraded to `schema`, or some of its columns; text as dictionaries.

    Raises `DatasetError` if the file is foreign, damaged, too large or newer than this program, and `FileNotFoundError`
    if the file is gone.
    """
    return schema.upgrade(
        read_table(path, lambda stated: schema.version_of(stated, str(path)), columns), str(path), columns
    )


def write_file(directory: Place, name: str, table: pa.Table) -> None:
    """Write `table` as the file `name`, replacing a file of that name; the file is on disk when this function returns.

    Raises `DatasetError`, without leaving a file behind, if the disk is full or the directory cannot be written.
    """
    if isinstance(directory, Address):
        _put(directory, name, parquet_bytes(table))
        return
    try:
        with replacing(directory / name, durable=True) as file:
            write_table(table, file)
    except WriteError as error:
        raise _unwritable(directory, error) from None


def check_writable(directory: Place) -> None:
    """Create `directory` if needed and write to it. Raises `DatasetError` if that fails."""
    if isinstance(directory, Address):
        name = _temporary_name()
        _put(directory, name, PROOF)
        remove_file(directory / name)
        return
    try:
        writable_folder(directory)
    except WriteError as error:
        raise _unwritable(directory, error) from None


def remove_file(path: Place) -> None:
    """Delete one file of records, if it still exists. Raises `DatasetError`."""
    try:
        if isinstance(path, Address):
            remote_at(path, path.parent).remove()
            return
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def remove_stale_temporaries(directory: Place, older_than_seconds: float) -> None:
    """Delete temporary files that a killed process left. Younger ones may belong to another process.

    Ages are relative to a file created now, so that only the file system's clock counts.
    """
    if isinstance(directory, Address):
        _remove_stale_objects(directory, older_than_seconds)
        return
    probe = temporary_beside(directory / "probe")
    try:
        with probe.open("xb"):
            now = probe.stat().st_mtime
        for path in directory.glob(f"{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}"):
            try:
                stale = now - path.stat().st_mtime > older_than_seconds
            except FileNotFoundError:
                continue
            if stale:
                _remove(path)
    except OSError as error:
        raise _unwritable(directory, error) from None
    finally:
        _remove(probe)


def _may_be_a_file(path: Place) -> bool:
    """Whether the path is a regular file, or has just been deleted. Reading anything else, such as a pipe, may never
    end.
    """
    if isinstance(path, Address):
        return True  # listings of an address contain only files
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:  # such as a cycle of links
        return False


def _check_files(paths: list[Place]) -> list[Place]:
    for path in paths:
        if path.suffix != SUFFIX or not _may_be_a_file(path):
            raise DatasetError(
                f"A directory of records must hold only Parquet files, but {path} is no such file; move it elsewhere."
            )
    return paths


def _sizes(directory: Address) -> dict[str, int]:
    try:
        return remote_at(directory).sizes()
    except OSError as error:
        raise DatasetError(
            f"No records can be read from {directory}: {failure_in_words(error, 'name another place')}"
        ) from None


def _put(directory: Address, name: str, content: bytes) -> None:
    try:
        remote_at(directory).put(name, content, _temporary_name())
    except OSError as error:
        raise _unwritable(directory, error) from None


def _remove_stale_objects(directory: Address, older_than_seconds: float) -> None:
    names = [name for name in _sizes(directory) if name.startswith(TEMPORARY_PREFIX)]
    if not names:
        return
    probe = _temporary_name()
    _put(directory, probe, PROOF)
    try:
        now = remote_at(directory / probe, directory).write_time()
        for name in names:
            try:
                stale = now - remote_at(directory / name, directory).write_time() > older_than_seconds
            except FileNotFoundError:
                continue
            if stale:
                remove_file(directory / name)
    except OSError as error:
        raise _unwritable(directory, error) from None
    finally:
        remove_file(directory / probe)


def _temporary_name() -> str:
    return f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # A leftover is invisible to readers, and hiding the error that led here would be worse.
        return


def _unwritable(directory: Place, raised: OSError | WriteError) -> DatasetError:
    error = raised if isinstance(raised, OSError) else raised.cause
    if isinstance(directory, Address):
        return DatasetError(
            f"Records cannot be written to {directory}: {failure_in_words(error, 'name another place')}"
        )
    why = error.strerror or str(error).rstrip(".")
    full = error.errno in FULL_DISK
    advice = "Free the disk, or give another directory." if full else "Give another directory."
    return DatasetError(f"Records cannot be written to {directory}: {why}. {advice}")

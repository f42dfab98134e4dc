"""Whole files of records: listed, read, and written so that a crash leaves all of a file or nothing."""

import os
import stat
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from autosync.dataset.parquet import plain, read_table, write_table
from autosync.dataset.schema import SCHEMA, Schema
from autosync.errors import DatasetError

SUFFIX = ".parquet"
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".autosync-", ".tmp"
IGNORED_PREFIXES = (".", "_")
"""Names that pandas, pyarrow and Ray Data pass over in a directory of Parquet files; temporary files start so."""


def list_files(directory: Path) -> list[Path]:
    """Files of records in `directory`, by name.

    Raises `DatasetError` when it cannot be listed, or holds something else: readers of the plain directory would fail.
    """
    try:
        paths = [path for path in sorted(directory.iterdir()) if not path.name.startswith(IGNORED_PREFIXES)]
    except OSError as error:
        raise DatasetError(
            f"No records can be read from {directory}: {error.strerror}. Give a directory that autosync wrote."
        ) from None
    for path in paths:
        if path.suffix != SUFFIX or not _may_be_a_file(path):
            raise DatasetError(
                f"A directory of records holds Parquet files only, but {path} is none; move it elsewhere."
            )
    return paths


def read_file(path: Path, schema: Schema = SCHEMA, columns: Sequence[str] | None = None) -> pa.Table:
    """What `read_encoded` gives, with the text in every row. Raises as that does."""
    return plain(read_encoded(path, schema, columns), str(path))


def read_encoded(path: Path, schema: Schema = SCHEMA, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of one file, upgraded to `schema`, or some of its columns; text as dictionaries.

    Raises `DatasetError` when the file is not of records, damaged, too large or newer than this program, and
    `FileNotFoundError` when it is gone.
    """
    return schema.upgraded(
        read_table(path, lambda found: schema.version_of(found, str(path)), columns), str(path), columns
    )


def write_file(directory: Path, name: str, table: pa.Table) -> None:
    """Write `table` as the file `name`, on disk when this returns; replaces a file of that name.

    Raises `DatasetError`, leaving nothing behind, when the disk is full or the directory cannot be written.
    """
    temporary = _temporary(directory)
    try:
        with temporary.open("xb") as file:
            write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, directory / name)
        _sync_directory(directory)
    except OSError as error:
        raise _unwritable(directory, error) from None
    finally:
        _remove(temporary)


def check_writable(directory: Path) -> None:
    """Make `directory` if it is missing and write to it. Raises `DatasetError` when that fails."""
    probe = _temporary(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _sync_directory(directory.parent)
        with probe.open("xb") as file:
            file.write(b"autosync can write here")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(directory, error) from None
    finally:
        _remove(probe)


def remove_file(path: Path) -> None:
    """Delete one file of records; one that is gone already is fine. Raises `DatasetError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def remove_stale_temporaries(directory: Path, older_than_seconds: float) -> None:
    """Delete temporary files that a killed process left; younger ones may be in use by another process.

    Ages are taken against a file made now, so that the file system's clock is the only one.
    """
    probe = _temporary(directory)
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


def _may_be_a_file(path: Path) -> bool:
    """Whether it is one, or has just gone; reading what else a directory may hold, such as a pipe, might never end."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:  # such as links in a ring
        return False


def _temporary(directory: Path) -> Path:
    return directory / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # A leftover is invisible to readers, and hiding the error that led here would be worse.
        return


def _sync_directory(directory: Path) -> None:
    """Make renames in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(directory: Path, error: OSError) -> DatasetError:
    why = error.strerror or str(error).rstrip(".")
    return DatasetError(f"Records cannot be written to {directory}: {why}. Free the disk, or give another directory.")

"""The claim of a command on the folder of its run: two commands that write into one folder would mix their files."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autosync.errors import AutosyncError
from autosync.files import PRIVATE, unwritable
from autosync.spec import cut

LOCK = ".in-use"
"""The file in a claimed folder. The kernel drops the lock on it when the process ends, even if that is killed."""

MOST_BYTES = 200
"""Bytes of the lock file that are read to name the command that holds it."""

MOST_ATTEMPTS = 100
"""Attempts to make the lock file in a folder that other commands remove meanwhile. /proc looks like such a folder."""

MOST_NAMES = 1000
"""Names that are tried for a folder whose name follows from the time."""


@contextmanager
def claimed(folder: Path, *, is_default: bool = False, resume: bool = False) -> Iterator[Path]:
    """Make `folder` if missing, and keep other commands out of it for the block. Yield the folder.

    A folder that `is_default` is named after the time, not by the user. It must be new: if it exists, `folder-2` and
    so on are tried. A folder that was made here is removed if it stays empty. With `resume` a missing folder stays
    missing, because the caller refuses it. Raises `AutosyncError` if another command holds the folder or it cannot be
    written.
    """
    if resume and not os.path.exists(folder):
        yield folder
        return
    made: list[Path] = []
    try:
        if is_default:
            folder = _new(folder, made)
        descriptor = _locked(folder, made)
        try:
            yield folder
        finally:
            with suppress(OSError):
                (folder / LOCK).unlink()
            os.close(descriptor)
    finally:
        for path in reversed(made):
            with suppress(OSError):  # it has content
                path.rmdir()


def _make(folder: Path, made: list[Path]) -> None:
    """Make `folder` and its parents where they are missing, and add them to `made`. Raises `AutosyncError`."""
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        for path in reversed(missing):
            with suppress(FileExistsError):
                path.mkdir(PRIVATE)
                made.append(path)
        if not folder.is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except OSError as error:
        raise _unmade(folder, error) from None


def _new(folder: Path, made: list[Path]) -> Path:
    """The first of `folder`, `folder-2`, `folder-3`, ... that does not exist yet, made by this process."""
    _make(folder.parent, made)
    for number in itertools.count(1):
        path = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            path.mkdir(PRIVATE)
        except FileExistsError as error:
            if number == MOST_NAMES:
                raise _unmade(folder, error) from None
        except OSError as error:
            raise _unmade(folder, error) from None
        else:
            made.append(path)
            return path
    raise AssertionError("count is endless")


def _locked(folder: Path, made: list[Path]) -> int:
    """A descriptor of the folder's lock file, whose lock this process holds. Raises `AutosyncError`."""
    file = folder / LOCK
    for attempt in itertools.count(1):
        _make(folder, made)
        try:
            descriptor = _opened(file)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < MOST_ATTEMPTS:
                continue  # the command before may just have removed the folder, which it had left empty
            raise AutosyncError(f"--out {unwritable(folder, error)}") from None
        if not _lock(descriptor):
            holder = os.read(descriptor, MOST_BYTES).decode(errors="replace")
            os.close(descriptor)
            raise AutosyncError(
                f"--out {folder} is in use by another command ({cut(holder)}); wait until that ends, or name another."
            )
        if _is_at(descriptor, file):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)  # the command before has just removed this file, and a third one may hold a new file
    raise AssertionError("count is endless")


def _opened(file: Path) -> int:
    """A descriptor of `file`, made if missing. Raises `OSError` if it is a link, or no regular file."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file with one name alone")
    return descriptor


def _lock(descriptor: int) -> bool:
    """Lock the file, and return False if another process holds the lock. Some file systems know no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return True


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _unmade(folder: Path, error: OSError) -> AutosyncError:
    return AutosyncError(f"--out {folder} cannot be made: {error.strerror}; name another.")

"""The claim of a command on the folder of its run, because two commands that write into one folder would mix their
files.
"""

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
"""The lock file in a claimed folder. The kernel drops its lock when the process ends, even if the process is killed."""

MOST_BYTES = 200
"""The number of bytes of the lock file that are read to name the command that holds it."""

MOST_ATTEMPTS = 100
"""The maximum number of attempts to make the lock file in a folder that other commands remove meanwhile. /proc looks
like such a folder."""

MOST_NAMES = 1000
"""The maximum number of names to try for a folder that is named after the time."""


@contextmanager
def claim_folder(folder: Path, *, is_default: bool = False, resume: bool = False) -> Iterator[Path]:
    """Make `folder` if missing, and keep other commands out of it for the block. Yield the folder.

    A folder that `is_default` is named after the time, not by the user. It must be new: if it exists, `folder-2` and so
    on are tried. A folder that was made here is removed if it stays empty. With `resume` a missing folder is not made,
    because the caller refuses it. Raises `AutosyncError` if another command holds the folder, or if it cannot be
    written.
    """
    if resume and not os.path.exists(folder):
        yield folder
        return
    made: list[Path] = []
    try:
        if is_default:
            folder = _new(folder, made)
        descriptor = _lock_file(folder, made)
        try:
            yield folder
        finally:
            with suppress(OSError):
                (folder / LOCK).unlink()
            os.close(descriptor)
    finally:
        for path in reversed(made):
            with suppress(OSError):  # the folder has content
                path.rmdir()


def _make(folder: Path, made: list[Path]) -> None:
    """Make `folder` and its missing parents, and add the new ones to `made`. Raises `AutosyncError`."""
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
    """Make the first of `folder`, `folder-2`, `folder-3`, ... that does not exist yet, and return it."""
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


def _lock_file(folder: Path, made: list[Path]) -> int:
    """Lock the folder's lock file, and return its descriptor. Raises `AutosyncError`."""
    file = folder / LOCK
    for attempt in itertools.count(1):
        _make(folder, made)
        try:
            descriptor = _open_lock_file(file)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < MOST_ATTEMPTS:
                continue  # the previous command may just have removed the folder, which it left empty
            raise AutosyncError(f"--out {unwritable(folder, error)}") from None
        if not _lock(descriptor):
            holder = os.read(descriptor, MOST_BYTES).decode(errors="replace")
            os.close(descriptor)
            raise AutosyncError(
                f"--out {folder} is in use by another command ({cut(holder)}); "
                "wait until that command ends, or name another folder."
            )
        if _is_at(descriptor, file):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)  # the previous command has just removed this file, and a third command may hold a new file
    raise AssertionError("count is endless")


def _open_lock_file(file: Path) -> int:
    """Open `file`, made if missing, and return its descriptor. Raises `OSError` if it is a link, or no regular file."""
    # O_NOFOLLOW refuses a link; O_NONBLOCK keeps a named pipe from blocking the open.
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "the lock file is not a regular file with a single name")
    return descriptor


def _lock(descriptor: int) -> bool:
    """Lock the file; return False if another process holds the lock. Some file systems do not support locks."""
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
    return AutosyncError(f"--out {folder} cannot be made: {error.strerror}; name another folder.")

"""Opens regular files only: a pipe would block, a device may never end, and a link can lead out of a folder."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autosync.files.writing import unwritable

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_to_read(file: Path, *, through_links: bool = True) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device that replaces it meanwhile is refused as well.

    `through_links=False` refuses `file` if it is a link itself: use it in folders that may belong to another user.
    Raises `OSError`, whose `strerror` names the kind of `file` if it is not a regular file.
    """
    _check_regular(file.stat() if through_links else file.lstat())
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if through_links else os.O_NOFOLLOW)
    return os.fdopen(_regular(os.open(file, flags)), "rb")


def read_whole(file: Path) -> bytes:
    """The content of a regular file. Raises `OSError`."""
    with open_to_read(file) as stream:
        return stream.read()


@contextmanager
def open_to_append(file: Path) -> Iterator[BinaryIO]:
    """Yield `file`, made if missing, to append to it. A link, and a file with a second name, is refused, because
    the text would reach another folder. Raises `WriteError`, for an `OSError` in the block as well."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
    try:
        with os.fdopen(_regular(os.open(file, flags, 0o666)), "ab") as stream:
            if os.fstat(stream.fileno()).st_nlink > 1:
                raise OSError(errno.EMLINK, "it has a second name (a hard link)")
            yield stream
    except OSError as error:
        if error.errno == errno.ELOOP:
            error = OSError(errno.ELOOP, "it is a link")
        raise unwritable(file, error) from None


def _regular(descriptor: int) -> int:
    """The descriptor, if of a regular file; closed otherwise."""
    try:
        _check_regular(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        raise OSError(errno.ELOOP, "it is a link, which is not followed here")
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {KINDS.get(kind, 'something else')}, not a regular file")

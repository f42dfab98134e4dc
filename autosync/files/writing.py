"""Write a file such that readers see the old content or the new content, and no link redirects the write.

A writer creates a new file in the target's folder, under a name that no other process uses, and renames it over the
target. The rename replaces a link, not the file that the link points to. Another hard link to the old content keeps
the old content.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from autosync.errors import WriteError

TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".autosync-", ".tmp"

FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

REMEDIES = {
    **dict.fromkeys(FULL_DISK, "free the disk"),
    errno.ENOENT: "make its folder first",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "remove it",
    errno.EMLINK: "remove it",
}
"""The remedy by error number; every other error asks for another place."""


def write_atomically(
    file: Path, content: str | bytes, *, durable: bool = False, mode: int = 0o666, afterwards: str = ""
) -> None:
    """Replace `file` by one that holds `content`; text is written as UTF-8. The parameters are those of `replacing`."""
    with replacing(file, durable=durable, mode=mode, afterwards=afterwards) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(
    file: Path, *, durable: bool = False, mode: int = 0o666, suffix: str = TEMPORARY_SUFFIX, afterwards: str = ""
) -> Iterator[BinaryIO]:
    """Yield a new file, whose path is the stream's `name`; when the block ends, the new file replaces `file`.

    A block that raises leaves `file` unchanged and removes the new file. `durable` flushes file and folder to the disk.
    `mode` are the permissions before the umask; if `file` has fewer, the new file has no more. `suffix` ends the
    temporary name, for libraries that require an ending. `afterwards` is the user's next step, as in "add --resume to
    go on".

    Raises `WriteError`, for an `OSError` in the block as well.
    """
    temporary = temporary_beside(file, suffix)
    try:
        mode &= _permissions(file)
        with open(temporary, "x+b", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, mode)) as stream:
            try:
                yield stream
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
                stream.close()  # some network file systems report a full disk here
                os.replace(temporary, file)
            except BaseException:
                with suppress(OSError):  # the leftover is hidden, and the error that led here matters more
                    temporary.unlink(missing_ok=True)
                raise
        if durable:
            sync_folder(file.parent)
    except OSError as error:
        raise unwritable(file, error, afterwards) from error


def temporary_beside(file: Path, suffix: str = TEMPORARY_SUFFIX) -> Path:
    """A hidden name in the folder of `file` that no other process uses; short even if the name of `file` is long."""
    return file.parent / f"{TEMPORARY_PREFIX}{secrets.token_hex(16)}{suffix}"


def is_temporary(name: str) -> bool:
    """Whether a file called `name` is unfinished and was left by a killed writer."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(file: object, error: OSError, afterwards: str = "") -> WriteError:
    """An error of one sentence with the cause and the remedy."""
    cause = (error.strerror or str(error)).rstrip(".")
    remedy = REMEDIES.get(error.errno or 0, "name another place")
    return WriteError(
        f"{file} cannot be written: {cause}; {remedy}{f', and {afterwards}' if afterwards else ''}.", error
    )


def _permissions(file: Path) -> int:
    """The most permissions that a new `file` may have. Raises `OSError` if `file` cannot be replaced by a file."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return 0o777
    if stat.S_ISLNK(status.st_mode):
        _check_replaceable(file.parent, file)
        return 0o777
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket")
    return stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR


def _check_replaceable(folder: Path, link: Path) -> None:
    """Raise `OSError` for links in /dev, because an administrator could replace /dev/stdout, a link, by a file."""
    if os.path.realpath(folder) == "/dev":
        raise OSError(errno.EINVAL, f"{link.name} belongs to the system")

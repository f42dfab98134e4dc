"""Opens the folder of an emulated cluster without following links, and trusts it only if no other user can write there.

The folder lies in a directory such as /tmp, where every user can make a folder or a link with its name.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autosync.errors import ClusterError

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_own(folder: Path) -> bool:
    """True if `folder` is a folder of this user, and not a link to one."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Yield a descriptor of `folder`.

    Raises `FileNotFoundError`, and `ClusterError` for a folder that cannot be trusted.
    """
    kind = folder.lstat().st_mode
    if not stat.S_ISDIR(kind):
        raise ClusterError(
            f"{str(folder)!r} must be a folder that `up` made, but is {'a link' if stat.S_ISLNK(kind) else 'a file'}"
            ", which is not followed; check it, and remove it by hand or give another name."
        )
    if not is_own(folder):
        raise ClusterError(f"Folder {str(folder)!r} is another user's, and is not trusted; give another name.")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & WRITABLE_BY_OTHERS:
            raise ClusterError(
                f"Folder {str(folder)!r} can be written by other users, so its files are not trusted; look at them, "
                "and remove the folder by hand, or give another name."
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open this user's regular file `name` in `folder` for reading, without following links or waiting for pipes.

    Raises `ClusterError` for the folder as `open_folder` does, and `OSError` for the file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with open_folder(folder) as parent, os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it is another user's")
        yield stream


def remove(folder: Path, last: str) -> None:
    """Remove `folder` with its content, the file `last` at the end, because later commands find the rest by that file.

    Links in it are removed, not followed. Raises `ClusterError` as `open_folder` does.
    """
    with open_folder(folder) as descriptor:
        with os.scandir(descriptor) as entries:
            kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        for name in sorted(kinds, key=lambda name: name == last):
            if kinds[name]:
                shutil.rmtree(f"/proc/self/fd/{descriptor}/{name}")  # dir_fd came with Python 3.11
            else:
                os.unlink(name, dir_fd=descriptor)
    folder.rmdir()

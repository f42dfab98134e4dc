"""Folders inside a folder that another user may have made."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from autosync.errors import WriteError
from autosync.files.writing import sync_folder, temporary_beside, unwritable, write_atomically

PRIVATE = 0o700
"""The permissions of a new folder: only its owner has access, because a run holds command lines, addresses, weights and
logs."""


def inner_folder(folder: Path, name: str, *, mode: int = PRIVATE) -> Path:
    """The folder `name` in `folder`, both made if missing, with permissions `mode` before the umask.

    A link named `name` would lead out of a folder that the user did name, so it is refused. `folder` itself may be a
    link: the user named it. Raises `WriteError`.
    """
    return make_folder(check_inside(folder / name), mode=mode)


def check_inside(inner: Path) -> Path:
    """Return `inner`, a folder (perhaps missing) in a folder that the user named. Raises `WriteError` for a link."""
    if inner.is_symlink():
        target = os.readlink(inner)
        raise WriteError(
            f"{inner} is a link to {target[:200]!r}, which is not followed; remove the link.",
            OSError(errno.ELOOP, os.strerror(errno.ELOOP)),
        )
    return inner


def check_without_links(folder: Path) -> None:
    """Raise `WriteError` if `folder`, or anything in it, is a link or a file with a second name.

    Call it before a library that follows links writes into `folder`, which may be missing.
    """
    entries = [folder] if folder.is_symlink() else []
    for parent, folders, files in os.walk(folder):
        entries += [Path(parent, name) for name in folders if Path(parent, name).is_symlink()]
        entries += [Path(parent, name) for name in files if _leads_elsewhere(Path(parent, name))]
    if entries:
        raise WriteError(
            f"{entries[0]} is a link or has a second name, and files would be written through it; remove it.",
            OSError(errno.ELOOP, os.strerror(errno.ELOOP)),
        )


def _leads_elsewhere(file: Path) -> bool:
    status = file.lstat()
    return not stat.S_ISREG(status.st_mode) or status.st_nlink > 1


def make_folder(folder: Path, *, mode: int = PRIVATE) -> Path:
    """`folder`, made with its parents if missing, with permissions `mode` before the umask. Raises `WriteError`."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error.strerror}; name another.", error) from None
    return folder


def writable_folder(folder: Path) -> Path:
    """`folder`, made if missing, after a file was written there and removed again. Raises `WriteError`."""
    make_folder(folder)
    probe = temporary_beside(folder / "probe")
    try:
        sync_folder(folder.parent)
        write_atomically(probe, b"autosync can write here", durable=True)
    except WriteError as error:
        raise unwritable(folder, error.cause) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return folder

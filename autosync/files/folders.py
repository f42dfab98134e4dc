"""Folders inside a folder that somebody else may have made."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from autosync.errors import WriteError
from autosync.files.writing import sync_folder, temporary_beside, unwritable, write_atomically


def inner_folder(folder: Path, name: str, *, mode: int = 0o777) -> Path:
    """The folder `name` in `folder`, both made if missing, with permissions `mode` before the umask.

    A link named `name` would lead out of a folder that the user did name, so it is refused. `folder` itself may be a
    link: the user named it. Raises `WriteError`.
    """
    inner = folder / name
    if inner.is_symlink():
        target = os.readlink(inner)
        raise WriteError(
            f"{inner} is a link to {target[:200]!r}, and no file is written there; remove the link.",
            OSError(errno.ELOOP, os.strerror(errno.ELOOP)),
        )
    return made_folder(inner, mode=mode)


def made_folder(folder: Path, *, mode: int = 0o777) -> Path:
    """`folder`, made with its parents if missing, with permissions `mode` before the umask. Raises `WriteError`."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error.strerror}; name another.", error) from None
    return folder


def writable_folder(folder: Path) -> Path:
    """`folder`, made if missing, after a file was written there and removed again. Raises `WriteError`."""
    made_folder(folder)
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

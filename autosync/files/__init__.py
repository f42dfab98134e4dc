"""Opens files such that a folder made by another user can neither redirect a write nor block a read."""

from autosync.files.folders import (
    PRIVATE,
    check_inside,
    check_without_links,
    inner_folder,
    make_folder,
    writable_folder,
)
from autosync.files.opening import open_to_append, open_to_read, read_whole
from autosync.files.writing import replacing, unwritable, write_atomically

__all__ = [
    "PRIVATE",
    "check_inside",
    "check_without_links",
    "inner_folder",
    "make_folder",
    "open_to_append",
    "open_to_read",
    "read_whole",
    "replacing",
    "unwritable",
    "writable_folder",
    "write_atomically",
]

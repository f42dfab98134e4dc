"""Files opened for reading and writing such that a foreign folder can neither redirect a write nor block a read."""

from autosync.files.folders import (
    PRIVATE,
    check_inside,
    check_without_links,
    inner_folder,
    made_folder,
    writable_folder,
)
from autosync.files.opening import appended_to, opened_to_read, read_whole
from autosync.files.writing import replacing, unwritable, write_atomically

__all__ = [
    "PRIVATE",
    "appended_to",
    "check_inside",
    "check_without_links",
    "inner_folder",
    "made_folder",
    "opened_to_read",
    "read_whole",
    "replacing",
    "unwritable",
    "writable_folder",
    "write_atomically",
]

"""Bytes read as messages, with what is wrong said in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from autosync.dataset.autosync_import.messages import message_class
from autosync.errors import DatasetError, SpecError
from autosync.spec import STATE
from autosync.spec import read_bytes as read_within

__all__ = ["parsed", "read_bytes"]


def read_bytes(file: Path) -> bytes:
    """The bytes in `file`. Raises `DatasetError`."""
    try:
        return read_within(file, str(file), STATE.size)
    except SpecError as error:
        raise DatasetError(str(error)) from None
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}; check the dataset's folder.") from None


def parsed(data: bytes, name: str, where: object) -> Any:
    """The message called `name` in `data`, which came from `where`. Raises `DatasetError`."""
    message = message_class(name)()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise DatasetError(f"{where} must hold a {name} of AutoDist, but cannot be parsed as one.") from None
    return message

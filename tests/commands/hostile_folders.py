"""Damages every file of a run's folder in every way, one at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

VALUES = (None, [], {}, "x\x1b[31m\u202e", -1, 0, 1e308, 10**60, True, float("nan"), [[1]], {"a": {"b": 1}})
"""Values of a wrong type or size, which replace a right one."""


def damages(file: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Damages to `file` as a whole, by name."""
    content = file.read_bytes()

    def instead(make: Callable[[], object]) -> Callable[[], None]:
        def do() -> None:
            file.unlink()
            make()

        return do

    yield "empty", lambda: file.write_bytes(b"") and None
    yield "half", lambda: file.write_bytes(content[: len(content) // 2]) and None
    yield "zeros", lambda: file.write_bytes(bytes(1 << 16)) and None
    yield "no text", lambda: file.write_bytes(b"\xff\xfe\x00" * 999) and None
    yield "a list", lambda: file.write_bytes(b"[1]") and None
    yield "deep", lambda: file.write_bytes(b'{"a":' * 100_000) and None
    yield "huge", lambda: os.truncate(file, 1 << 34)
    yield "a folder", instead(lambda: file.mkdir())
    yield "a pipe", instead(lambda: os.mkfifo(file))
    yield "a ring of links", instead(lambda: file.symlink_to(file.name))
    yield "nothing", instead(lambda: None)
    yield "unreadable", lambda: file.chmod(0)


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places in a JSON document; the first item of a list stands for all items."""
    if path:
        yield path
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document[:1])
        if isinstance(document, list)
        else ()
    )
    for key, value in inner:
        yield from places(value, (*path, key))


def with_value(document: Any, path: tuple[str | int, ...], value: Any) -> str:
    """The document with `value` in the place `path`."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(copy)

"""Places of records: a folder of this machine, or an address of remote storage such as s3://bucket/records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias, final
from urllib.parse import parse_qsl, unquote, urlsplit

from autosync.errors import SpecError

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
LOCAL = "file"

SECRET = re.compile("secret|token|password|key", re.IGNORECASE)
"""Matches the name of an option whose value is secret."""


@final
@dataclass(frozen=True, order=True)
class Address:
    """The URI, as in pyarrow.fs, of a folder or of a file: `base` is SCHEME://HOST/PATH, and `options` follow a `?`."""

    base: str
    options: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in `text`. Raises `SpecError` if `text` is no address or contains secrets."""
        base, _, options = text.partition("?")
        try:
            parts = urlsplit(base)
            secret = parts.password is not None or any(SECRET.search(name) for name, _ in parse_qsl(options))
        except ValueError:
            raise SpecError("An address of records is SCHEME://HOST/PATH, and this one cannot be read.") from None
        if secret:
            raise SpecError(
                "An address of records is written into runs and reports, so it holds no secrets; give those as the "
                "tools of its provider read them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            )
        if not parts.netloc or "#" in text:
            raise SpecError(f"An address of records is SCHEME://HOST/PATH, such as s3://bucket/records, not {text!r}.")
        return cls(base.rstrip("/"), options)

    def __str__(self) -> str:
        return f"{self.base}?{self.options}" if self.options else self.base

    def __truediv__(self, name: str) -> Address:
        return Address(f"{self.base}/{name}", self.options)

    @property
    def scheme(self) -> str:
        return self.base.partition("://")[0].lower()

    @property
    def name(self) -> str:
        return self.base.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> Address:
        """The containing folder. Only addresses with a path below the host have one."""
        return Address(self.base.rpartition("/")[0], self.options)


Place: TypeAlias = Path | Address
"""The place of a folder of records, or of a file in it."""


def place_of(text: str) -> Place:
    """The folder that `text` names by a path or by an address; file://PATH is a path. Raises `SpecError`."""
    scheme = SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1].lower() == LOCAL:
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise SpecError(f"A file:// address names a folder of this machine, such as file:///data, not {text!r}.")
        return Path(unquote(parts.path))
    return Address.parse(text)


def absolute(place: Place) -> Place:
    """The place as a name that does not depend on the current folder of a process."""
    return place if isinstance(place, Address) else place.resolve()

"""Files at an address: list them, fetch them whole, and write them so that they appear whole or not at all.

An object store shows an object only when it is complete, so a killed writer leaves no visible object (for a large one,
it leaves an unfinished upload, which the store's own rules remove). Elsewhere a file gets its name when it is complete.
Requests without an answer within this module's limits are abandoned.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, final

import pyarrow as pa
from pyarrow import fs

from autosync.errors import DatasetError
from autosync.spec import cut
from autosync.spec.address import Address

LOOK_SECONDS, TRANSFER_SECONDS = 60.0, 600.0
"""The longest time for listing, querying and removing, and the longest for transferring a file."""

OBJECT_STORES = ("s3", "gs", "gcs")
"""Schemes of stores whose objects appear only when complete."""

RETRIES = {"gs": "retry_limit_seconds=20", "gcs": "retry_limit_seconds=20"}
"""Options that stop a scheme's own client from retrying for a quarter of an hour, unless the address has such
options.
"""

WORDS = (
    ("NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound", "make the bucket first, or name another"),
    (
        "ACCESS_DENIED|ACCESS_KEY|SIGNATURE|TOKEN|credential|UNAUTHENTICATED|PERMISSION_DENIED|Unauthorized|Forbidden",
        "give credentials as the tools of its provider read them, and check what they allow",
    ),
    ("NETWORK|curl|resolve host|timed out|does not answer|UNAVAILABLE|SLOW_DOWN", "check the network and the address"),
    ("not implemented|libjvm|libhdfs", "this machine cannot use such an address; name another"),
)
"""Remedies, by a pattern in the error's text."""

T = TypeVar("T")


@final
@dataclass(frozen=True)
class Remote:
    """A file system that serves `address`."""

    address: Address
    files: fs.FileSystem
    path: str
    """The address' path within the file system."""

    @property
    def is_object_store(self) -> bool:
        return self.address.scheme in OBJECT_STORES

    def sizes(self) -> dict[str, int]:
        """Return the files' sizes in bytes by name, in order; an empty result without the folder. Raises `OSError`."""
        selected = fs.FileSelector(self.path, allow_not_found=True)
        infos = _within(LOOK_SECONDS, lambda: self.files.get_file_info(selected))
        if not infos and self.is_object_store:
            self._check_bucket()
        return {info.base_name: info.size for info in sorted(infos, key=lambda info: info.path) if info.is_file}

    def fetch(self, most_bytes: int) -> bytes:
        """Return the content of this file, at most `most_bytes`. Raises `OSError`, or `FileNotFoundError` if the file
        is gone.
        """

        def fetch() -> bytes:
            with self.files.open_input_file(self.path) as file:
                if file.size() > most_bytes:
                    raise OSError(f"it has {file.size()} bytes, but at most {most_bytes} are read")
                return file.read()

        try:
            return _within(TRANSFER_SECONDS, fetch)
        except FileNotFoundError:
            raise
        except OSError:
            if self._is_gone():
                raise FileNotFoundError(f"{self.address} is gone") from None
            raise

    def put(self, name: str, content: bytes, temporary: str) -> None:
        """Write the file `name` in this folder. Where a half-written file would be visible, its name is `temporary`
        until it is complete. Raises `OSError`.
        """

        def put() -> None:
            path, at_first = f"{self.path}/{name}", f"{self.path}/{name if self.is_object_store else temporary}"
            if not self.is_object_store:
                self.files.create_dir(self.path, recursive=True)
            with self.files.open_output_stream(at_first) as stream:
                stream.write(content)
            if at_first != path:
                self.files.move(at_first, path)

        _within(TRANSFER_SECONDS, put)

    def remove(self) -> None:
        """Delete this file, if it still exists. Raises `OSError`."""
        try:
            _within(LOOK_SECONDS, lambda: self.files.delete_file(self.path))
        except FileNotFoundError:
            return

    def write_time(self) -> float:
        """Return when this file was written, by the server's clock, in seconds since 1970. Raises `OSError`."""
        info = _within(LOOK_SECONDS, lambda: self.files.get_file_info(self.path))
        if info.mtime_ns is None:
            raise FileNotFoundError(f"{self.address} is gone")
        return info.mtime_ns / 1e9

    def _is_gone(self) -> bool:
        try:
            return _within(LOOK_SECONDS, lambda: self.files.get_file_info(self.path)).type == fs.FileType.NotFound
        except OSError:
            return False

    def _check_bucket(self) -> None:
        bucket = self.path.partition("/")[0]
        if _within(LOOK_SECONDS, lambda: self.files.get_file_info(bucket)).type == fs.FileType.NotFound:
            raise OSError(f"the bucket does not exist: {bucket}")


AZURE = ("abfs", "abfss")

NO_ADDRESS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
"""pyarrow's errors for a text that is not an address of a known file system."""


@lru_cache(maxsize=64)
def _folder_at(address: Address) -> tuple[fs.FileSystem, str]:
    if address.scheme in AZURE and shutil.which("az") is None:
        os.environ.setdefault("AZURE_TOKEN_CREDENTIALS", "prod")  # otherwise a shell prints that `az` is missing
    extra = RETRIES.get(address.scheme, "")
    known = extra and extra.partition("=")[0] in address.options
    options = "&".join(option for option in (address.options, "" if known else extra) if option)
    folder: tuple[fs.FileSystem, str] = _within(
        LOOK_SECONDS, lambda: fs.FileSystem.from_uri(str(Address(address.base, options))), NO_ADDRESS
    )
    return folder


def remote_at(address: Address, folder: Address | None = None) -> Remote:
    """Return the file system of `address`, which is a folder, or a file in `folder`.

    Raises `OSError`, and `DatasetError` if no known file system has such an address.
    """
    try:
        files, path = _folder_at(folder or address)
    except NO_ADDRESS as error:
        raise DatasetError(
            f"Records must be in a folder, or at an address that pyarrow.fs knows, such as s3://bucket/records or "
            f"gs://bucket/records; {address} is neither ({cut(str(error)).rstrip('.')})."
        ) from None
    return Remote(address, files, path if folder is None else f"{path}/{address.name}")


def failure_in_words(error: OSError, otherwise: str) -> str:
    """Describe the failure and the remedy, or `otherwise`, as the end of a sentence."""
    text = " ".join(str(error).split())
    reason = re.sub(r"^When .{0,400}?: (?=AWS)|\(Request ID:.*|; Details:.*", "", text).strip().rstrip(".")
    advice = next((do for words, do in WORDS if re.search(words, text)), otherwise)
    return f"{cut(reason)}; {advice}."


def _within(seconds: float, ask: Callable[[], T], expected: tuple[type[Exception], ...] = ()) -> T:
    """Return the value of `ask`, or raise its error. Errors of pyarrow other than `expected` become an `OSError`.

    Raises `TimeoutError` if `ask` does not end in time; its daemon thread continues unobserved.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        error = errors[0]
        if isinstance(error, pa.ArrowException) and not isinstance(error, (OSError, *expected)):
            raise OSError(str(error)) from None
        raise error
    if not answers:
        raise TimeoutError(f"it does not answer within {seconds:.0f} s")
    return answers[0]

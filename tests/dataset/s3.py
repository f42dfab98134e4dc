"""A real S3 server on this machine for tests of records at an address: moto's, which is in the extra `dev`."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pyarrow import fs

from autosync.spec.address import Address
from tests.architecture.source_tree import ROOT

BUCKET = "bucket"
SERVES = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@final
@dataclass(frozen=True)
class S3:
    """A server at `endpoint`, HOST:PORT, with a bucket."""

    endpoint: str

    @property
    def options(self) -> str:
        return f"endpoint_override={self.endpoint}&scheme=http&region=us-east-1&allow_bucket_creation=true"

    def folder(self, name: str) -> Address:
        return Address(f"s3://{BUCKET}/{name}", self.options)

    @property
    def files(self) -> fs.FileSystem:
        """The server as pyarrow's file system."""
        return fs.FileSystem.from_uri(f"s3://{BUCKET}?{self.options}")[0]

    def keys(self, name: str) -> list[str]:
        """Return the names of the objects in a folder."""
        result = self.files.get_file_info(fs.FileSelector(f"{BUCKET}/{name}", allow_not_found=True))
        return sorted(info.base_name for info in result if info.is_file)

    def ask(self, path: str, body: bytes = b"") -> None:
        """Send a request to the server itself, for example to make it check credentials from now on."""
        request = urllib.request.Request(f"http://{self.endpoint}{path}", body, {"Content-Type": "text/plain"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200


@contextmanager
def s3_server(log: Path) -> Iterator[S3]:
    """Run the server in its own process, so that killed or hanging clients cannot harm it."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
        )
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().strip().partition(" ")
            assert port, log.read_text()
            server = S3(f"{host}:{port}")
            server.files.create_dir(BUCKET)
            yield server
        finally:
            process.kill()
            process.wait()


def credentials() -> dict[str, str]:
    """Environment variables for clients of the server: arbitrary credentials, and no search for others."""
    return {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process that runs `code` with these arguments, as a client of the server."""
    environment = os.environ | credentials() | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )

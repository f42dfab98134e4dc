"""Starts a local Ray: tries twice if Ray is slow, and reports in one sentence why Ray cannot start."""

import os
import tempfile
from typing import Any

import ray

from autosync.errors import ClusterError
from trials.trial import reason_of

ATTEMPTS = 2

SOCKET_PATH_BYTES = 107
"""The longest path of a socket in Linux. Ray makes its sockets in TMPDIR, up to `RAYS_PART` bytes below it."""

RAYS_PART = len("/ray/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store.1")


def check_temporary_folder() -> None:
    """Raise `ClusterError` if the paths of Ray's sockets would be too long."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or tempfile.gettempdir()
    longest = SOCKET_PATH_BYTES - RAYS_PART
    if len(os.fsencode(folder)) > longest:
        raise ClusterError(
            f"Ray makes sockets in TMPDIR, whose path may have {longest} bytes, not {len(os.fsencode(folder))}; set "
            "TMPDIR to a shorter one, such as /tmp."
        )


def local_ray(**options: Any) -> Any:
    """Start a Ray here with the `options` of `ray.init`; return its context. Raises `ClusterError`."""
    check_temporary_folder()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ray.init(address="local", **options)
        except Exception as error:  # Ray raises bare exceptions if its processes are slow
            ray.shutdown()
            if attempt == ATTEMPTS:
                raise ClusterError(
                    f"Ray could not be started here in {ATTEMPTS} attempts: {reason_of(error).rstrip('.')}. Try again "
                    "when the machine is less busy, or check the logs in ray/session_latest/logs of TMPDIR."
                ) from None
    raise AssertionError("an attempt returns or raises")

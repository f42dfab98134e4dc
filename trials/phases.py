"""The phases of an emulated cluster whose links change: when each began, kept in a file that its nodes can read."""

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from autosync.files import write_atomically
from autosync.spec import ClusterSpec, canonical_json, read_json
from autosync.spec.codec import every

VARIABLE = "AUTOSYNC_PHASES"
"""The environment variable that names the file on the nodes of an emulated cluster."""


def write_begun(file: Path, begun: Sequence[float]) -> None:
    """Write the seconds since 1970 at which phases began, the first with the cluster. Raises `WriteError`."""
    write_atomically(file, canonical_json({"begun": list(begun)}))


def read_begun(file: Path) -> tuple[float, ...]:
    """When the phases until now began. Raises `OSError` where there is no file, and `SpecError` for another's."""
    return every(read_json(file, "A list of phases"), "begun", float, "A list of phases")


def phases_here(cluster: ClusterSpec, times: Iterable[float]) -> tuple[int, ...] | None:
    """The phase that each of `times`, seconds since 1970, was in, from 0 on; None where links do not change.

    A change counts from when it was carried out.
    """
    file = os.environ.get(VARIABLE)
    if not file or not cluster.changes:
        return None
    begun = read_begun(Path(file))
    return tuple(max(0, bisect_right(begun, time) - 1) for time in times)

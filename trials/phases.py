"""The phases of an emulated cluster whose links change: the start of each phase, in a file that the nodes can read."""

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from autosync.files import write_atomically
from autosync.spec import ClusterSpec, canonical_json, read_json
from autosync.spec.codec import read_list

VARIABLE = "AUTOSYNC_PHASES"
"""The environment variable that names the file on the nodes of an emulated cluster."""


def write_begun(file: Path, begun: Sequence[float]) -> None:
    """Write the start of each phase in seconds since 1970; the first is the start of the cluster.

    Raises `WriteError`.
    """
    write_atomically(file, canonical_json({"begun": list(begun)}))


def read_begun(file: Path) -> tuple[float, ...]:
    """Return the start of each phase so far.

    Raises `OSError` if the file is missing, and `SpecError` if it is not ours.
    """
    return read_list(read_json(file, "A list of phases"), "begun", float, "A list of phases")


def phases_here(cluster: ClusterSpec, times: Iterable[float]) -> tuple[int, ...] | None:
    """Return the phase at each of `times` (seconds since 1970), counted from 0; None if links do not change.

    A phase starts when its change has been carried out.
    """
    file = os.environ.get(VARIABLE)
    if not file or not cluster.changes:
        return None
    begun = read_begun(Path(file))
    return tuple(max(0, bisect_right(begun, time) - 1) for time in times)

"""The cluster options of a command, for the commands that it prints."""

import os
from pathlib import Path
from typing import Any

from autosync.words.commands import RanOn
from trials.phases import VARIABLE

INSIDE = "AUTOSYNC_EMULATED"
"""The environment variable of a command on the head of an emulated cluster, which joins the Ray that RAY_ADDRESS names.
"""


def is_inside() -> bool:
    """Whether this process runs on the head of an emulated cluster that its own command made."""
    return INSIDE in os.environ


def name_of_emulated_cluster() -> str | None:
    """The name of the cluster on whose head `autosync emulate exec` started this process; None elsewhere."""
    if is_inside() or not (phases := os.environ.get(VARIABLE)):
        return None
    return Path(phases).parent.name.removeprefix("autosync-")


def ran_on(options: Any) -> RanOn:
    """The options of a search or a race that chose its cluster, and the emulated cluster around this process."""
    names = ("workers", "address", "cluster", "profile", "working_dir", "python_path", "emulate")
    stated = {name: getattr(options, name, None) for name in names}
    written = {name: str(value) if isinstance(value, Path) else value for name, value in stated.items()}
    return RanOn.of(written, {"emulated_cluster": name_of_emulated_cluster()})

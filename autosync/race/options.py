"""The options of a race, checked when they are built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.spec import Target
from autosync.tune.options import OptionsError

MOST_SEEDS = 100


@dataclass(frozen=True)
class RaceOptions:
    """The options of `autosync race`."""

    model: str
    """A zoo model, or the user's own as package.module:function."""
    target: Target
    out: Path
    """The folder of the race."""
    data: Path = Path("data")
    """The folder of the data set that gets the records of the runs."""
    menu: str = "systems"
    """The name of the menu of disciplines, as `search_spaces.load_menu` resolves it."""
    seeds: int = 3
    """The number of seeds that each discipline trains on."""
    runs: int = 200
    """The largest number of runs."""
    combinations: int = 6
    """The largest number of combinations of disciplines to try."""
    time_limit_seconds: float = 300.0
    """The time limit of a run."""
    give_up: float = 2.0
    """How many times the rival's time a run may take before it is given up."""
    strategy: Path | None = None
    """The file of the plain strategy; None for the baseline with the shortest predicted step."""
    resume: bool = False
    """True to resume the race in `out`."""
    workers: int | None = None
    """Worker processes in all; None for one a node, or 4 on a single CPU machine."""
    address: str | None = None
    """The Ray cluster to join; None for $RAY_ADDRESS, or a local one."""
    cluster: Path | None = None
    """The cluster file; None if the cluster is discovered or emulated."""
    emulate: str | None = None
    """The cluster to emulate, such as 4x200mbit, or a cluster file; None for no emulation."""
    nodes_per_trial: int | None = None
    """The nodes of a run; runs are made side by side. None for all nodes."""
    node_wait_seconds: float = 600.0
    """How long a run waits for nodes that left."""
    capture_seconds: float = 180.0
    """The time limit for building and capturing the model."""

    def __post_init__(self) -> None:
        if not 2 <= self.seeds <= MOST_SEEDS:
            raise OptionsError(f"--seeds must be from 2, for an interval, to {MOST_SEEDS}, not {self.seeds}.")
        if self.runs < 2:
            raise OptionsError(f"--trials must be 2 or more, because the first run is the plain one, not {self.runs}.")
        if self.nodes_per_trial is not None and self.nodes_per_trial < 1:
            raise OptionsError(f"--nodes-per-trial must be 1 or more, not {self.nodes_per_trial}.")
        if not 0 <= self.node_wait_seconds < math.inf:
            raise OptionsError(f"--node-wait must be 0 seconds or more, not {self.node_wait_seconds:g}.")
        exclusive = [name for name in ("workers", "cluster", "emulate") if getattr(self, name) is not None]
        if len(exclusive) > 1:
            raise OptionsError(f"--{exclusive[0]} and --{exclusive[1]} exclude each other; leave one of them out.")

    def identity(self) -> dict[str, Any]:
        """Return the options that a resumed race must share with the original race."""
        return {
            "model": self.model,
            "target": self.target.to_json(),
            "menu": self.menu,
            "strategy": None if self.strategy is None else str(self.strategy),
        }

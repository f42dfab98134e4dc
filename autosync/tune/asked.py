"""What a run was asked, as its report tells it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from autosync.space import SearchSpace
from autosync.tune.options import TuneOptions

__all__ = ["asked"]


def asked(options: TuneOptions, space: SearchSpace, arguments: Sequence[str]) -> dict[str, Any]:
    """The command that began this process of the run, its budget and protocol, and how large the space is."""
    return {
        "command": shlex.join(["python", "-m", "autosync.tune", *arguments]),
        "trials": options.trials,
        "time_budget_seconds": options.time_budget_seconds,
        "rounds": options.rounds,
        "counterfactuals": options.counterfactuals,
        "trial_time_limit_seconds": options.trial_time_limit_seconds,
        "stop_factor": options.stop_factor,
        "space": {
            "name": space.name,
            "log10_size": space.log10_size,
            "decided_variables": space.decided_variables,
            "effective_dimension": space.effective_dimension,
        },
    }

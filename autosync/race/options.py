"""What a race is asked to do, checked where it enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.spec import Target
from autosync.tune.options import OptionsError, flag

MOST_SEEDS = 100

OBJECTIVES = ("step-time", "target")

OF_RACE = ("target", "menu", "seeds", "strategy", "evaluate_every", "most_steps")
"""Options of `autosync tune` that say something about a race only."""

OF_BOTH = (
    "model",
    "trials",
    "workers",
    "out",
    "resume",
    "trial_time_limit_seconds",
    "address",
    "cluster",
    "emulate",
    "capture_time_limit_seconds",
)
"""Options that say something about a race as about a search."""


def check_for_race(stated: Sequence[str]) -> None:
    """Raise `AutosyncError` for a stated option that says nothing about a race."""
    of_search = [name for name in stated if name not in (*OF_RACE, *OF_BOTH)]
    if of_search:
        raise OptionsError(f"{flag(of_search[0])} is for step times; leave it out, or --objective target.")


@dataclass(frozen=True)
class RaceOptions:
    """`strategy` is the file of the plain strategy, or None for the baseline whose predicted step is the shortest.

    `menu` names what is offered beside it, as `search_spaces.load_menu` finds it. At most so many `runs` are made, each
    within `time_limit_seconds`, and so many `combinations` of disciplines tried.
    """

    model: str
    target: Target
    out: Path
    menu: str = "systems"
    seeds: int = 3
    runs: int = 200
    combinations: int = 6
    time_limit_seconds: float = 300.0
    give_up: float = 2.0
    strategy: Path | None = None
    resume: bool = False
    workers: int | None = None
    address: str | None = None
    cluster: Path | None = None
    emulate: str | None = None
    capture_seconds: float = 180.0

    def __post_init__(self) -> None:
        if not 2 <= self.seeds <= MOST_SEEDS:
            raise OptionsError(f"--seeds are from 2, so that there is an interval, to {MOST_SEEDS}, not {self.seeds}.")
        if self.runs < 2:
            raise OptionsError(f"--trials are 2 or more, the first of them the plain strategy's, not {self.runs}.")
        given = [name for name in ("workers", "cluster", "emulate") if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionsError(f"--{given[0]} and --{given[1]} exclude each other; leave one of them out.")

    def identity(self) -> dict[str, Any]:
        """What a resumed race must share with the one it goes on from."""
        return {
            "model": self.model,
            "target": self.target.to_json(),
            "menu": self.menu,
            "strategy": None if self.strategy is None else str(self.strategy),
        }

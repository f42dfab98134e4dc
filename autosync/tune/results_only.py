"""The configuration that `ray.tune.Tuner.restore` finds: it shows results, and names the command that resumes the
search.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, final

from ray.tune import TuneConfig

from autosync.errors import AutosyncError


@final
@dataclass
class OneWayConfig(TuneConfig):
    """A configuration that Tune pickles next to its results as a `RestoredConfig`.

    `again` is the command that resumes the search from this folder.
    """

    again: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return RestoredConfig, (self.metric, self.mode, self.again, str(Path.cwd()))


@final
class RestoredConfig:
    """Has the metric and mode that `Tuner.get_results` needs; every attribute that `fit` needs raises `AutosyncError`.

    A search needs its cluster, its workers and its model, which no pickle can hold.
    """

    def __init__(self, metric: str, mode: str, again: str, folder: str) -> None:
        self.metric = metric
        self.mode = mode
        self._command = f"cd {shlex.quote(folder)} && {again}"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AutosyncError(
            "Ray's Tuner.restore shows the results of a search but cannot resume it, which needs a cluster and the "
            f"model; run: {self._command}"
        )

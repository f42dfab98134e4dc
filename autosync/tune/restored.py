"""What `ray.tune.Tuner.restore` finds of a search: its results, and a sentence that says how to go on with it."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, final

from ray.tune import TuneConfig

from autosync.errors import AutosyncError


@final
@dataclass
class OneWayConfig(TuneConfig):
    """A configuration that Tune pickles beside its results as a `RestoredConfig`.

    `again` is the command that resumes the search from this folder.
    """

    again: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return RestoredConfig, (self.metric, self.mode, self.again, str(Path.cwd()))


@final
class RestoredConfig:
    """Says which results are best, as `Tuner.get_results` asks; all that `fit` asks is answered with `AutosyncError`.

    A search needs its cluster, its workers and its model, and no pickle holds these.
    """

    def __init__(self, metric: str, mode: str, again: str, folder: str) -> None:
        self.metric = metric
        self.mode = mode
        self._go_on = f"cd {shlex.quote(folder)} && {again}"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AutosyncError(
            "Ray's Tuner.restore shows the results of a search but cannot go on with it, which takes a cluster and the "
            f"model; run: {self._go_on}"
        )

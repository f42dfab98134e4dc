"""A search algorithm for the caller's own `ray.tune.Tuner`, whose trainable times a strategy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, final

from ray.tune.search import Searcher

from autosync.files import write_atomically
from autosync.search.protocol import Proposal
from autosync.spec import STATE, read_json
from autosync.spec.codec import read_required
from autosync.tune.python.search import Search


@final
class AutoSyncSearcher(Searcher):
    """Lets Ray Tune search a `Search`: a trial's configuration has a strategy, and its result the seconds of a step.

    The configuration has the JSON document of the strategy under `strategy`, which `autosync.distribute`,
    `autosync.torch.distribute` and `Strategy.from_json` take, and the strategy's origin under `label`. The trainable
    reports the seconds under `metric`. A trial without them counts as failed. The number of trials is that of the
    `Search`, so let `num_samples` be -1.
    """

    def __init__(self, search: Search, metric: str = "step_seconds") -> None:
        super().__init__(metric=metric, mode="min")
        self.search = search
        self._out: dict[str, Proposal] = {}

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **_: Any) -> bool:
        """Return False for a search space of Tune's own, and for another metric or mode."""
        return metric in (None, self.metric) and mode in (None, "min") and not config

    def suggest(self, trial_id: str) -> Any:
        """The next trial's configuration; None while the next strategy depends on trials that run."""
        proposal = self.search.ask()
        if proposal is None:
            return None if self._out else Searcher.FINISHED
        self._out[trial_id] = proposal
        return {"strategy": proposal.strategy.to_json(), "label": proposal.label}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        proposal = self._out.pop(trial_id, None)
        if proposal is None:
            return
        seconds = float((result or {}).get(str(self.metric), math.nan))
        if error or not 0 < seconds < math.inf:
            self.search.tell(proposal, failure=f"The trial reported no positive {self.metric}.")
        else:
            self.search.tell(proposal, seconds)

    def save(self, checkpoint_path: str) -> None:
        out = {trial: proposal.to_json() for trial, proposal in self._out.items()}
        write_atomically(Path(checkpoint_path), json.dumps({"search": self.search.state(), "out": out}))

    def restore(self, checkpoint_path: str) -> None:
        document = read_json(Path(checkpoint_path), checkpoint_path, limits=STATE)
        out = read_required(document, "out", dict, checkpoint_path)
        self.search.restore(read_required(document, "search", dict, checkpoint_path))
        self._out = {trial: Proposal.from_json(proposal) for trial, proposal in out.items()}

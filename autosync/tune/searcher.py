"""The campaign as a Ray Tune searcher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, final

from ray.tune.search import Searcher

from autosync.errors import AutosyncError, TrialError
from autosync.spec import RuntimeRecord, parse_json
from autosync.tune.campaign import Campaign
from trials.request import TrialRequest

__all__ = ["METRIC", "TuneSearcher"]

METRIC = "step_seconds"


@final
class TuneSearcher(Searcher):
    """Suggests what the campaign asks for, and hands it the records that trials report.

    A trial's configuration holds the request as JSON text under `request`; its result the record under `record`.
    `save` and `restore` keep the searcher's state as JSON. An error that ends the search (a full disk, or a trial that
    reports a `failure`) is left in `failure`, since Tune would wrap it in its own.
    """

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(metric=METRIC, mode="min")
        self._campaign = campaign
        self._requests: dict[str, TrialRequest] = {}
        self.failure: AutosyncError | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **_: Any) -> bool:
        """Tune may name our own metric; another one, or a space of Tune's own, is refused with False."""
        return metric in (None, METRIC) and mode in (None, "min") and not config

    def suggest(self, trial_id: str) -> Any:
        request = None if self.failure else self._campaign.next_request()
        if request is None:
            return Searcher.FINISHED
        self._requests[trial_id] = request
        return {
            "label": request.label,
            "strategy": request.strategy.digest,
            "request": json.dumps(request.to_json()),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        request = self._requests.pop(trial_id, None)
        if request is None:
            return
        text, failure = (result or {}).get("record"), (result or {}).get("failure")
        try:
            if failure is not None:
                raise TrialError(failure)
            if text is None or error:
                # The trial's actor broke, not the strategy: nothing was measured, and the strategy stays pending.
                self._campaign.lose(request)
            else:
                self._campaign.finish(RuntimeRecord.from_json(parse_json(text, "A trial's record")))
        except AutosyncError as ends_search:
            self.failure = ends_search

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_text(json.dumps(self._campaign.state()))

    def restore(self, checkpoint_path: str) -> None:
        self._campaign.restore(parse_json(Path(checkpoint_path).read_bytes(), checkpoint_path))

    def __getstate__(self) -> dict[str, Any]:
        """Tune may pickle a searcher beside its results; ours is kept as JSON in the run's directory."""
        return {"_metric": self._metric, "_mode": self._mode}

"""The campaign as a Ray Tune searcher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, final

from ray.tune.search import Searcher

from autosync.errors import AutosyncError
from autosync.spec import STATE, RuntimeRecord, parse_json, read_json
from autosync.tune.campaign import Campaign
from trials.lanes import Lanes
from trials.request import TrialRequest

__all__ = ["METRIC", "TuneSearcher"]

METRIC = "step_seconds"


@final
class TuneSearcher(Searcher):
    """Suggests what the campaign asks for, and hands it the records that trials report.

    A trial's configuration names its `lane` and holds the request as JSON text under `request`; its result the record
    under `record`.
    `save` and `restore` keep the searcher's state as JSON. An error that ends the search (a full disk, or a trial that
    reports a `failure`) is left in `failure`, since Tune would wrap it in its own.
    """

    def __init__(self, campaign: Campaign, lanes: Lanes) -> None:
        """Have as many trials out at once as `lanes` have room for."""
        super().__init__(metric=METRIC, mode="min")
        self._campaign = campaign
        self._lanes = lanes
        self._out: dict[str, tuple[str, TrialRequest]] = {}
        self.failure: AutosyncError | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **_: Any) -> bool:
        """Refuse with False another metric than our own, which Tune may name, and a space of Tune's own."""
        return metric in (None, METRIC) and mode in (None, "min") and not config

    def suggest(self, trial_id: str) -> Any:
        """The next trial's configuration; None while no lane is free, or what is under way may still be lost."""
        if self.failure:
            return Searcher.FINISHED
        if self._campaign.is_over:
            return None if self._out else Searcher.FINISHED
        try:
            lane = self._lanes.take()
        except AutosyncError as ends_search:
            self.failure = ends_search
            return Searcher.FINISHED
        if lane is None:
            return None
        request = self._campaign.next_request()
        if request is None:  # the space is used up
            self._lanes.give_back(lane)
            return None if self._out else Searcher.FINISHED
        self._out[trial_id] = lane, request
        return {
            "lane": lane,
            "label": request.label,
            "strategy": request.strategy.digest,
            "request": json.dumps(request.to_json()),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if trial_id not in self._out:
            return
        lane, request = self._out.pop(trial_id)
        text, failure = (result or {}).get("record"), (result or {}).get("failure")
        try:
            self._lanes.give_back(lane, failure or "")
            if text is None or error:
                # The lane or the trial's actor broke: nothing was measured, and the strategy stays pending.
                self._campaign.lose(request)
            else:
                self._campaign.finish(RuntimeRecord.from_json(parse_json(text, "A trial's record", finite=False)))
        except AutosyncError as ends_search:
            self.failure = ends_search

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_text(json.dumps(self._campaign.state()))

    def restore(self, checkpoint_path: str) -> None:
        self._campaign.restore(read_json(Path(checkpoint_path), checkpoint_path, limits=STATE))

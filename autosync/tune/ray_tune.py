"""Running a campaign under Ray Tune."""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any, final

import ray
from ray import tune
from ray.tune import PlacementGroupFactory, RunConfig, Trainable, Tuner
from ray.tune.search import Searcher

from autosync.errors import AutosyncError, TrialError
from autosync.files import write_atomically
from autosync.spec import STATE, RuntimeRecord, parse_json, read_json
from autosync.tune.campaign import Campaign
from autosync.tune.directory import RunDirectory
from autosync.tune.restored import OneWayConfig
from trials.fleet.lanes import Lanes, RunOnLane
from trials.trial import TrialRequest


@final
class StrategyTrial(Trainable):
    """A trial of Tune's. Its actor is reused from trial to trial, so that one costs little more than its steps."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:  # noqa: ARG003 - Tune's
        """Next to nothing: a trial only hands on. It stays beside the searching program, lest a lost node take it."""
        return PlacementGroupFactory([{"CPU": 0.01, f"node:{ray.util.get_node_ip_address()}": 0.001}])

    def setup(self, _config: dict[str, Any], run: RunOnLane | None = None) -> None:
        assert run is not None, "wrap the class with ray.tune.with_parameters(StrategyTrial, run=...)"
        self._run = run

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.config = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Run the trial. A record that is not timed reports no step time, which Tune shows as NaN.

        When no trial can be run any more there is no record, but a `failure` that says why.
        """
        try:
            request = TrialRequest.from_json(json.loads(self.config["request"]))
            record = self._run(self.config["lane"], request)
        except TrialError as error:
            return {"step_seconds": float("nan"), "failure": str(error), "done": True}
        median = record.median_seconds
        return {
            "step_seconds": float("nan") if median is None else median,
            "predicted_seconds": float("nan") if record.predicted_seconds is None else record.predicted_seconds,
            "best_step_seconds": _least(median if record.outcome == "ok" else None, request.best_median_seconds),
            "outcome": record.outcome,
            "reason": record.reason,
            "label": record.label,
            "model": record.model.name,
            "strategy_digest": record.strategy.digest,
            "setup_seconds": record.setup_seconds,
            "record": json.dumps(record.to_json()),
            "done": True,
        }


def _least(*seconds: float | None) -> float:
    return min((each for each in seconds if each is not None), default=float("nan"))


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
        write_atomically(Path(checkpoint_path), json.dumps(self._campaign.state()))

    def restore(self, checkpoint_path: str) -> None:
        self._campaign.restore(read_json(Path(checkpoint_path), checkpoint_path, limits=STATE))


def run_with_tune(campaign: Campaign, lanes: Lanes, directory: RunDirectory, model: str, again: str) -> None:
    """Run every trial of `campaign` as a Tune trial on a reused actor, so that Tune's results and Ray's dashboard
    show them. Raises `KeyboardInterrupt` on Ctrl-C, with all finished trials told.

    `again` is the command that resumes the search, for users who restore the tuner.
    """
    _quiet_tune()
    searcher = TuneSearcher(campaign, lanes)
    tuner = Tuner(
        tune.with_parameters(StrategyTrial, run=lanes.runner()),
        tune_config=OneWayConfig(
            metric=METRIC,
            mode="min",
            search_alg=searcher,
            again=again,
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=lambda trial: _trial_name(trial, model),
            trial_dirname_creator=lambda trial: _trial_name(trial, model),
        ),
        run_config=RunConfig(
            name=directory.name,
            storage_path=str(directory.tune_directory),
            verbose=0,
            # A Tune trial that errors is asked for again by the campaign, not by Tune; and it has nothing to save.
            failure_config=tune.FailureConfig(max_failures=0),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    tuner.fit()
    if searcher.failure is not None:
        raise searcher.failure


def _trial_name(trial: Any, model: str) -> str:
    return re.sub("[:/\\0]", "-", f"{model}-{trial.config['label']}-{trial.config['strategy'][:8]}")


def _quiet_tune() -> None:
    """Leave progress, Ctrl-C and our state to ourselves, and have Tune write its snapshot seldom."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "600"
    os.environ["TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S"] = "0"
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    for name in ("ray.tune", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # On a full disk its snapshot, which nothing here reads, fails with a traceback; what is lost by that we say.
    logging.getLogger("ray.tune.execution.experiment_state").setLevel(logging.CRITICAL)

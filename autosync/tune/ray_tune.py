"""Runs a campaign under Ray Tune."""

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import ray
from ray import tune
from ray.tune import Callback, PlacementGroupFactory, ResultGrid, RunConfig, Trainable, Tuner
from ray.tune.search import Searcher

from autosync.errors import AutosyncError, TrialError
from autosync.files import write_atomically
from autosync.spec import STATE, RuntimeRecord, parse_json, read_json
from autosync.tune.campaign import Campaign
from autosync.tune.directory import RunDirectory
from autosync.tune.ray_callbacks import CheckedCallback
from autosync.tune.results_only import OneWayConfig
from trials.fleet.lanes import Lanes, RunOnLane
from trials.trial import TrialRequest


@final
class StrategyTrial(Trainable):
    """A Tune trial that times one strategy. Its actor is reused, so that a trial costs little more than its steps."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory:  # noqa: ARG003 - Tune's
        """Almost no resources, because a trial only forwards a request. It stays on the driver's node, so that a lost
        node cannot end it.
        """
        return PlacementGroupFactory([{"CPU": 0.01, f"node:{ray.util.get_node_ip_address()}": 0.001}])

    def setup(self, _config: dict[str, Any], run: RunOnLane | None = None) -> None:
        assert run is not None, "wrap the class with ray.tune.with_parameters(StrategyTrial, run=...)"
        self._run = run

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.config = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Run the trial. A record without timed steps reports no step time, which Tune shows as NaN.

        If trials can no longer run, the result has no record, but a `failure` with the reason.
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
    return min((value for value in seconds if value is not None), default=float("nan"))


METRIC = "step_seconds"


@final
class TuneSearcher(Searcher):
    """Adapts a campaign to Tune: suggests the campaign's requests, and passes it the records that trials report.

    A trial's configuration has its `lane`, and the request as JSON text under `request`; its result has the record
    under `record`. `save` and `restore` store the searcher's state as JSON. An error that ends the search (a full disk,
    a trial that reports a `failure`, or a failed callback) is kept in `failure`, because Tune would wrap it in its own.
    """

    def __init__(self, campaign: Campaign, lanes: Lanes) -> None:
        """At most as many trials run at once as `lanes` have room for."""
        super().__init__(metric=METRIC, mode="min")
        self._campaign = campaign
        self._lanes = lanes
        self._out: dict[str, tuple[str, TrialRequest]] = {}
        self.failure: AutosyncError | None = None

    def fail(self, error: AutosyncError) -> None:
        """End the search because of `error`."""
        self.failure = self.failure or error

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **_: Any) -> bool:
        """Return False for a search space of Tune's own, and for a metric that Tune names other than `METRIC`."""
        return metric in (None, METRIC) and mode in (None, "min") and not config

    def suggest(self, trial_id: str) -> Any:
        """The next trial's configuration; None while no lane is free, or while pending trials may still be lost."""
        if self.failure:
            return Searcher.FINISHED
        if self._campaign.is_over:
            return None if self._out else Searcher.FINISHED
        try:
            lane = self._lanes.take()
        except AutosyncError as ends_search:
            self.fail(ends_search)
            return Searcher.FINISHED
        if lane is None:
            return None
        request = self._campaign.next_request()
        if request is None:  # the search space is exhausted
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
                # The lane or the trial's actor broke, so there is no measurement and the strategy stays pending.
                self._campaign.lose(request)
            else:
                self._campaign.finish(RuntimeRecord.from_json(parse_json(text, "A trial's record", finite=False)))
        except AutosyncError as ends_search:
            self.fail(ends_search)

    def save(self, checkpoint_path: str) -> None:
        write_atomically(Path(checkpoint_path), json.dumps(self._campaign.state()))

    def restore(self, checkpoint_path: str) -> None:
        self._campaign.restore(read_json(Path(checkpoint_path), checkpoint_path, limits=STATE))


VARIABLES = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}
LOGS = {
    "ray.tune": logging.ERROR,
    "ray.train": logging.ERROR,
    # On a full disk, Tune's snapshot fails with a traceback. Nothing here reads that snapshot, and autosync reports its
    # own losses.
    "ray.tune.execution.experiment_state": logging.CRITICAL,
}


@contextmanager
def quiet_tune() -> Iterator[None]:
    """Turn off Tune's progress output and Ctrl-C handler, which autosync replaces, and make Tune write its snapshot
    rarely; restore all of them after the block, because the user's program may use Tune as well.
    """
    variables = {name: os.environ.get(name) for name in VARIABLES}
    levels = {name: logging.getLogger(name).level for name in LOGS}
    os.environ.update(VARIABLES)
    for name, level in LOGS.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for variable, value in variables.items():
            os.environ.pop(variable) if value is None else os.environ.update({variable: value})
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@quiet_tune()
def run_with_tune(
    campaign: Campaign,
    lanes: Lanes,
    directory: RunDirectory,
    model: str,
    again: str,
    callbacks: Sequence[Callback] = (),
) -> None:
    """Run every trial of `campaign` as a Tune trial on a reused actor, so that Tune's results and Ray's dashboard show
    them. Raises `KeyboardInterrupt` on Ctrl-C, after all finished trials have been reported.

    `again` is the command that resumes the search, for users who restore the tuner. `callbacks` are the user's.
    """
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
            progress_reporter=tune.CLIReporter(),  # Tune's reporter for notebooks clears the cell, even if it is quiet
            callbacks=[CheckedCallback(callback, searcher.fail) for callback in callbacks],
            # The campaign, not Tune, requests a failed trial again; and a trial has no state to save.
            failure_config=tune.FailureConfig(max_failures=0),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    tuner.fit()
    if searcher.failure is not None:
        raise searcher.failure


def tune_results(directory: RunDirectory) -> ResultGrid:
    """Ray Tune's results in `directory`, of the trials of the last process. Raises `AutosyncError` without them."""
    folder = directory.tune_directory / directory.name
    if not Tuner.can_restore(str(folder)):
        raise AutosyncError(f"{folder} holds no results of Ray Tune; run the search again, or copy its whole folder.")
    return Tuner.restore(str(folder), StrategyTrial).get_results()


def _trial_name(trial: Any, model: str) -> str:
    return re.sub("[:/\\0]", "-", f"{model}-{trial.config['label']}-{trial.config['strategy'][:8]}")

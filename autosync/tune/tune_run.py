"""Running a campaign under Ray Tune."""

from __future__ import annotations

import logging
import os
from typing import Any

from ray import tune
from ray.tune import RunConfig, Tuner

from autosync.tune.campaign import Campaign
from autosync.tune.restored import OneWayConfig
from autosync.tune.run_directory import RunDirectory
from autosync.tune.searcher import METRIC, TuneSearcher
from autosync.tune.trainable import StrategyTrial
from trials.lanes import Lanes

__all__ = ["run_with_tune"]


def run_with_tune(campaign: Campaign, lanes: Lanes, directory: RunDirectory, model: str, again: str) -> None:
    """Run every trial of `campaign` as a Tune trial on a reused actor, so that Tune's results and Ray's dashboard
    show them. Raises `KeyboardInterrupt` on Ctrl-C, with all finished trials told.

    `again` are the arguments of the command that goes on with the search, for who restores the tuner.
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
    return f"{model.replace(':', '-')}-{trial.config['label']}-{trial.config['strategy'][:8]}"


def _quiet_tune() -> None:
    """Leave progress, Ctrl-C and our state to ourselves, and have Tune write its snapshot seldom."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "600"
    os.environ["TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S"] = "0"
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    for name in ("ray.tune", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)

"""Callbacks of Ray Tune that a caller passes to a search."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.tune import Callback
from ray.tune.logger import LoggerCallback

from autosync.errors import AutosyncError
from autosync.tune.campaign import SearchLimits
from autosync.tune.directory import RunDirectory
from autosync.tune.ray_callbacks import HOOKS, CheckedCallback
from autosync.tune.ray_tune import run_with_tune
from tests.tune.pretend import OneLane, PretendBackend, campaign, options


class Broken(Callback):
    """Fails at the second result."""

    def __init__(self) -> None:
        self.results = 0
        self.lock = open(__file__)  # noqa: SIM115 - a value that cannot be pickled

    def on_trial_result(self, **_info: Any) -> None:
        self.results += 1
        if self.results == 2:
            raise ValueError("no more of this")


class Logger(LoggerCallback):
    """A logger like those of MLflow and Weights & Biases."""

    def __init__(self) -> None:
        self.configs: list[Any] = []
        self.results: list[Any] = []
        self.ends: list[bool] = []

    def log_trial_start(self, trial: Any) -> None:
        self.configs.append(dict(trial.config))

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        del iteration, trial
        self.results.append(result)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        del trial
        self.ends.append(failed)


def test_a_failed_callback_is_called_no_more_and_pickles_as_none() -> None:
    errors: list[AutosyncError] = []
    broken = Broken()
    checked = CheckedCallback(broken, errors.append)
    for _ in range(4):
        checked.on_trial_result(iteration=1, trials=[], trial=None, result={})
    assert (broken.results, len(errors)) == (2, 1)
    assert str(errors[0]) == (
        "The callback 'Broken' failed, so the search ended: ValueError: no more of this. All finished trials are kept; "
        "correct the callback, and continue with resume=True."
    )
    assert len(pickle.loads(pickle.dumps(CheckedCallback(broken, errors.append)))) == 0
    assert {"setup", "on_trial_result", "on_trial_complete", "on_experiment_end"} <= set(HOOKS)


@pytest.fixture
def small_ray() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("small_ray")
def test_a_logger_sees_every_trial_and_a_broken_callback_ends_the_search(tmp_path: Path) -> None:
    logger, directory = Logger(), RunDirectory.open(options(tmp_path / "run"))
    search = campaign("random", SearchLimits(trials=9))
    with pytest.raises(AutosyncError, match="The callback 'Broken' failed, so the search ended: ValueError: no more"):
        run_with_tune(search, OneLane(PretendBackend()), directory, "mlp", "autosync tune", [logger, Broken()])
    assert [config["label"] for config in logger.configs[:2]] == [record.label for record in search.records]
    assert [(result["strategy_digest"], result["step_seconds"]) for result in logger.results] == [
        (record.strategy.digest, record.median_seconds) for record in search.records
    ]
    assert logger.ends == [False, False]

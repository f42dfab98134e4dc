"""One Ray Tune trial: run the request on its lane, report the record."""

from __future__ import annotations

import json
from typing import Any, final

import ray
from ray.tune import PlacementGroupFactory, Trainable

from autosync.errors import TrialError
from trials.lanes import RunOnLane
from trials.request import TrialRequest

__all__ = ["StrategyTrial"]


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

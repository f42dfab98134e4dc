"""The request for a trial."""

from __future__ import annotations

import json

from autosync.spec import TimingProtocol
from tests.trials.scripted import request
from trials.trial import TrialRequest


def test_a_request_survives_json() -> None:
    wanted = request(
        "byteps",
        protocol=TimingProtocol(3, 4, 5.0, 6.0, 7),
        purpose="search",
        label="guided",
        run="run-1",
        seed=9,
        best_median_seconds=0.5,
        best_when="since the search went on",
        predicted_seconds=0.25,
    )
    assert TrialRequest.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted

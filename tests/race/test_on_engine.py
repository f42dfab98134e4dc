"""A race on the engine itself, on logical devices of this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tensorflow as tf  # noqa: F401 - so that this process has logical devices

from autosync.engine.capture.capturing import capture
from autosync.engine.capture.profile import profiled
from autosync.engine.zoo import build_task
from autosync.race.job import race_on
from autosync.race.options import RaceOptions
from autosync.runs.race_folder import RaceFolder
from autosync.spec import Strategy, Target, read_json
from tests.cases import local_cluster
from trials.fleet.here import LocalBackend


def test_disciplines_train_to_a_target_and_a_race_that_ended_early_goes_on(tmp_path: Path) -> None:
    backend = LocalBackend(profiled(capture(build_task("digits"))).to_bytes(), local_cluster(4))
    asked = RaceOptions("digits", Target("loss", 1.2, every=5, steps=100), tmp_path / "race", seeds=2, runs=4)
    said: list[str] = []

    def race(options: RaceOptions) -> int:
        return race_on(backend, options, RaceFolder.open(options.out, options.identity(), options.resume), said.append)

    assert race(asked) == 0
    folder = RaceFolder(asked.out)
    records = folder.records()
    assert [each.label for each in records] == ["plain", "backup worker", "elfving", "empirical"]
    assert records[0].outcome == "reached"
    assert records[1].decided is not None
    assert set(records[1].decided.counted) == {3}
    assert race(replace(asked, runs=6, resume=True)) == 0
    assert [each.label for each in folder.records()] == [*(each.label for each in records), "filter", "bandit"]
    assert "4 runs are there already." in said
    result = folder.result()
    assert result is not None
    assert {"plain", "backup worker"} <= {each["name"] for each in result["places"]}
    assert Strategy.from_json(read_json(folder.strategy_file, "")) is not None
    assert (asked.out / "report.html").exists()

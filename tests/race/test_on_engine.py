"""A race on the engine itself, on logical devices of this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tensorflow as tf  # noqa: F401 - so that this process has logical devices

from autosync.dataset.target_store import TargetStore
from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.capture.profile import profile
from autosync.race.job import race_on
from autosync.race.options import RaceOptions
from autosync.runs.race_folder import RaceFolder
from autosync.spec import Strategy, Target, read_json
from autosync.zoo import build_task
from tests.cases import local_cluster
from trials.fleet.local_backend import LocalBackend


def test_disciplines_train_to_a_target_and_a_race_that_ended_early_goes_on(tmp_path: Path) -> None:
    backend = LocalBackend(profile(capture(build_task("digits"))).to_bytes(), local_cluster(4))
    options = RaceOptions(
        "digits", Target("loss", 1.2, every=5, steps=100), tmp_path / "race", tmp_path / "data", seeds=2, runs=4
    )
    printed: list[str] = []

    def run_race(race_options: RaceOptions) -> int:
        folder = RaceFolder.open(race_options.out, race_options.identity(), race_options.resume)
        return race_on(backend, race_options, folder, printed.append)

    assert run_race(options) == 0
    folder = RaceFolder(options.out)
    records = folder.records()
    assert [record.label for record in records] == ["plain", "backup worker", "elfving", "empirical"]
    assert records[0].outcome == "reached"
    assert records[1].decided is not None
    assert set(records[1].decided.counted) == {3}
    assert run_race(replace(options, runs=6, resume=True)) == 0
    assert [record.label for record in folder.records()] == [*(record.label for record in records), "filter", "bandit"]
    assert "4 runs are finished already." in printed
    assert [record.label for record in TargetStore.create(options.data).read()] == [
        record.label for record in folder.records()
    ]
    result = folder.result()
    assert result is not None
    assert {"plain", "backup worker"} <= {place["name"] for place in result["places"]}
    assert Strategy.from_json(read_json(folder.strategy_file, "")) is not None
    assert (options.out / "report.html").exists()

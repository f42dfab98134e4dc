"""Training on worker processes: data read by the workers, and recovery after a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import autosync
from autosync.errors import TrainingError
from autosync.train import RayBatches, Sharded, Trainer
from tests.train.models import LOSS, batches, classifier, mixture

pytestmark = pytest.mark.thorough  # this test starts Ray itself; `make test` trains in one process

SIZES = (12, 7, 2)


@pytest.fixture(scope="module")
def trainer() -> Iterator[Trainer]:
    """Three worker processes on a Ray that starts and ends with them."""
    joined = os.environ.pop("RAY_ADDRESS", None)
    model = classifier()
    with autosync.distribute(model, LOSS, keras.optimizers.Adam(0.01), mixture(model)) as made:
        made.prepare(next(batches((6,))))
        yield made
    if joined is not None:
        os.environ["RAY_ADDRESS"] = joined


def on_logical_devices() -> Trainer:
    model = classifier()
    return autosync.distribute(model, LOSS, keras.optimizers.Adam(0.01), mixture(model), backend="local")


def test_worker_processes_train_as_logical_devices_do(trainer: Trainer) -> None:
    with on_logical_devices() as local:
        expected = local.fit(list(batches(SIZES)))
    history = trainer.fit(list(batches(SIZES)))
    assert set(trainer.pids()) == {"client", "worker-0", "worker-1", "worker-2"}
    np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-5)


def test_every_worker_reads_its_shard_in_its_own_process(trainer: Trainer, tmp_path: Any) -> None:
    def part(shard: int, _shards: int) -> Iterator[Any]:
        (tmp_path / f"{shard}").write_text(str(os.getpid()))
        yield from batches((3, 2 + shard), seed=shard)

    history = trainer.fit(Sharded(part))
    workers = [trainer.pids()[f"worker-{shard}"] for shard in range(3)]
    assert [int((tmp_path / f"{shard}").read_text()) for shard in range(3)] == workers
    assert history.examples == [9, 9]


def test_a_data_set_of_ray_is_split_over_the_workers(trainer: Trainer) -> None:
    import ray

    features, labels = next(batches((30,)))
    dataset = ray.data.from_items(
        [{"x": value, "y": int(label)} for value, label in zip(features, labels, strict=True)]
    )
    assert sum(trainer.fit(RayBatches(dataset, 4, "x", "y")).examples) == 30
    assert trainer.fit(RayBatches(dataset, 12, "x", "y", sharded=False)).examples == [12, 12, 6]


def test_a_killed_worker_ends_in_one_error_and_a_checkpoint_to_go_on_from(trainer: Trainer, tmp_path: Any) -> None:
    file = trainer.save(tmp_path / "last.keras")
    steps = trainer.steps
    expected = trainer.step(next(batches((12,), seed=9)))
    os.kill(trainer.pids()["worker-1"], signal.SIGKILL)
    with pytest.raises(TrainingError) as ended:
        trainer.fit(list(batches((12,), seed=9)), steps=3)
    sentence = str(ended.value)
    assert f"Training ended after {steps + 1} steps: Worker 1 on node0 has died." in sentence
    assert f"Resume from the checkpoint {str(file)!r}." in sentence
    with pytest.raises(TrainingError, match="Worker 1 on node0 has died"):
        trainer.save(tmp_path / "worse.keras")
    with on_logical_devices() as local:
        local.restore(file)
        assert local.step(next(batches((12,), seed=9))) == pytest.approx(expected, rel=1e-5)
        assert local.steps == steps + 1


def test_the_processes_and_the_ray_that_were_started_end_with_the_trainer(trainer: Trainer) -> None:
    import ray

    trainer.close()
    trainer.close()
    assert not ray.is_initialized()

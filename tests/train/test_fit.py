"""The data that `fit` accepts, and the effects of callbacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import autosync
from autosync.errors import TrainingError
from autosync.train import Checkpoints, Sharded, Trainer
from tests.train.models import LOSS, all_reduce, batches, classifier

SIZES = (12, 12, 7)


def new_trainer() -> Trainer:
    model = classifier()
    return autosync.distribute(model, LOSS, keras.optimizers.SGD(0.01), all_reduce(model), backend="local")


@pytest.fixture(scope="module")
def trainer() -> Iterator[Trainer]:
    """One trainer for all tests; no test depends on its initial weights."""
    with new_trainer() as made:
        made.prepare(next(batches((4,))))
        yield made


def losses_of_steps(trainer: Trainer, data: Any) -> list[float]:
    return [trainer.step(batch) for batch in data]


def test_any_iterable_is_trained_on_in_passes(trainer: Trainer, tmp_path: Any) -> None:
    data = list(batches(SIZES))
    whole = tf.data.Dataset.from_generator(
        lambda: iter(data), output_signature=(tf.TensorSpec((None, 6)), tf.TensorSpec((None,), tf.int64))
    )
    start = trainer.save(tmp_path / "start.keras")
    expected = losses_of_steps(trainer, [*data, *data[:2]])
    for dataset in (data, whole):
        trainer.restore(start)
        history = trainer.fit(dataset, steps=5)
        assert history.loss == expected
        assert history.examples == [12, 12, 7, 12, 12]
    trainer.restore(start)
    assert trainer.fit(iter(data)).loss == expected[:3]
    assert history.examples_per_second > 0


def test_a_generators_first_batch_is_not_lost_to_capturing_the_model() -> None:
    with pytest.warns(UserWarning, match=r"fit ended after 3 of 9 steps: the data is used up"):
        assert new_trainer().fit(batches(SIZES), steps=9).examples == [12, 12, 7]


def test_shards_are_read_apart_and_weighed_by_their_examples(trainer: Trainer, tmp_path: Any) -> None:
    data = list(batches((5, 4, 3, 2, 1)))

    def part(shard: int, shards: int) -> list[Any]:
        return data[shard::shards]

    start = trainer.save(tmp_path / "start.keras")
    history = trainer.fit(Sharded(part))
    trainer.restore(start)
    together = [
        tuple(np.concatenate([data[number][side] for number in numbers]) for side in (0, 1))
        for numbers in ((0, 1, 2), (3, 4))
    ]
    np.testing.assert_allclose(history.loss, losses_of_steps(trainer, together), rtol=1e-5)
    assert history.examples == [12, 3]


def test_a_shard_without_a_batch_is_named() -> None:
    with pytest.raises(TrainingError, match=r"after 0 steps: .*Shard 2 of 3 has no batch; .*No checkpoint was saved\."):
        new_trainer().fit(Sharded(lambda shard, _: [] if shard == 2 else batches((4,))))


class Noted(keras.callbacks.Callback):
    """Records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[str] = []

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras' form, as below
        self.moments.append("begin")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self.moments.append(f"pass {epoch}")

    def on_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        assert logs["loss"] > 0
        self.moments.append("step")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        weights = self.model.get_weights()
        self.moments.append(f"mean {logs['loss']:.6f} {np.sum(weights[0]):.6f}")

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        self.moments.append("end")


def test_keras_callbacks_are_called_at_their_moments(trainer: Trainer) -> None:
    noted = Noted()
    history = trainer.fit(list(batches(SIZES)), callbacks=[noted])
    mean = np.dot(history.loss, history.examples) / sum(history.examples)
    last = np.sum(trainer.model.get_weights()[0])
    assert noted.moments == ["begin", "pass 0", "step", "step", "step", f"mean {mean:.6f} {last:.6f}", "end"]


def test_a_scheduled_learning_rate_reaches_the_workers(trainer: Trainer) -> None:
    frozen = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.0 if epoch else rate)
    history = trainer.fit(list(batches((12,))), steps=3, callbacks=[frozen])
    first, second, third = history.loss
    assert first != second == third
    trainer.model.optimizer.learning_rate = 0.01
    trainer.fit(list(batches((12,))), callbacks=[Noted()])


def test_a_callback_may_stop_training(trainer: Trainer) -> None:
    class Stops:
        def set_trainer(self, of: Trainer) -> None:
            self.of = of

        def on_train_batch_end(self, batch: int, _logs: Any) -> None:  # noqa: ARG002
            self.of.model.stop_training = True

    assert len(trainer.fit(list(batches(SIZES)), steps=9, callbacks=[Stops()])) == 1


def test_checkpoints_are_written_along_the_way_and_the_newest_kept(trainer: Trainer, tmp_path: Any) -> None:
    begin = trainer.steps
    kept = Checkpoints(tmp_path, every=1)
    trainer.fit(list(batches(SIZES)), callbacks=[kept])
    assert [file.name for file in kept.files()] == [f"step-{begin + done:08d}.keras" for done in (2, 3)]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (7, r"Data must give batches \(inputs, targets\) when iterated, but int cannot be\."),
        ([], r"Data must have at least one batch, but has none\."),
        (Sharded(lambda _shard, _shards: []), r"Data must have at least one batch, but has none\."),
    ],
)
def test_data_without_batches_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(TrainingError, match=sentence):
        new_trainer().fit(data)


def test_an_object_that_is_no_callback_is_refused(trainer: Trainer) -> None:
    with pytest.raises(
        TrainingError, match=r"A callback must have methods such as on_train_batch_end\(batch, logs\), but"
    ):
        trainer.fit([], callbacks=[3])

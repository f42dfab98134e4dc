"""Metrics computed on the workers during training equal those that Keras computes in one process."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import autosync
from autosync.errors import ModelError
from autosync.spec import ParameterServer, Strategy, VariableStrategy
from autosync.train import Trainer
from tests.train.models import LOSS, REPLICAS, batches, classifier, mixture, noisy_classifier

UNEVEN = (12, 7, 2, 1)
"""An even batch for three replicas, an uneven one, and two with fewer examples than replicas."""


def metrics() -> list[Any]:
    """Metrics by name, by object, and one with more state than a sum and a count."""
    return ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top_2"), MeanLabel()]


class MeanLabel(keras.metrics.Metric):
    """A custom metric with an array as state."""

    def __init__(self) -> None:
        super().__init__(name="label")
        self.counts = self.add_variable((3,), "zeros", name="counts")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        del y_pred, sample_weight
        one_hot = keras.ops.one_hot(keras.ops.reshape(y_true, (-1,)), 3)
        self.counts.assign(self.counts + keras.ops.sum(one_hot, 0))

    def result(self) -> Any:
        return keras.ops.sum(self.counts * keras.ops.arange(3, dtype="float32")) / keras.ops.sum(self.counts)


def distributed(model: Any, strategy: Any = mixture, **named: Any) -> Trainer:
    optimizer = keras.optimizers.SGD(0.1)
    return autosync.distribute(model, LOSS, optimizer, strategy(model), backend="local", workers=3, **named)


def stale(model: Any) -> Strategy:
    paths = [variable.path for variable in model.trainable_variables]
    server = ParameterServer("node0/cpu:1", staleness=1)
    return Strategy(REPLICAS, tuple(VariableStrategy(path, (server,)) for path in paths))


class Keeps:
    def __init__(self) -> None:
        self.logs: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        assert epoch == len(self.logs)
        self.logs.append(logs)


def test_each_pass_has_the_metrics_of_keras_over_uneven_batches() -> None:
    data, keeps, plain = list(batches(UNEVEN)), Keeps(), classifier()
    with distributed(classifier(), metrics=metrics()) as trainer:
        history = trainer.fit(data, 2 * len(data), [keeps])
    plain.compile("sgd", LOSS, metrics=metrics(), auto_scale_loss=False)
    plain.optimizer.learning_rate = 0.1
    for logs in keeps.logs:
        expected = plain.fit((batch for batch in data), verbose=0).history
        assert set(logs) == {"loss", "accuracy", "top_2", "label"}
        assert logs == {name: pytest.approx(value, rel=1e-5) for name, (value,) in expected.items()}
    assert [pass_.logs for pass_ in history.passes] == keeps.logs
    assert [pass_.steps for pass_ in history.passes] == [4, 8]


def test_metrics_can_be_read_at_any_time_and_reset() -> None:
    data = list(batches((6, 6, 6)))
    with distributed(noisy_classifier(), metrics=[MeanLabel()]) as trainer:
        trainer.step(data[0])
        assert trainer.metrics() == {"label": pytest.approx(data[0][1].mean())}
        trainer.step(data[1])
        targets = np.concatenate([data[0][1], data[1][1]])
        assert trainer.metrics(reset=True) == {"label": pytest.approx(targets.mean())}
        trainer.step(data[2])
        assert trainer.metrics() == {"label": pytest.approx(data[2][1].mean())}


def test_stale_training_counts_every_example_once() -> None:
    data = list(batches((6, 7, 6, 1)))
    with distributed(classifier(), stale, metrics=[MeanLabel()]) as trainer:
        trainer.fit(data)
        assert trainer.metrics() == {"label": pytest.approx(np.concatenate([batch[1] for batch in data]).mean())}


def test_a_saved_model_has_the_metrics_it_was_trained_with(tmp_path: Any) -> None:
    with distributed(classifier(), metrics=["accuracy"]) as trainer:
        trainer.fit(list(batches((6,))))
        file = trainer.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(file)
    assert set(loaded.evaluate(*next(batches((9,))), verbose=0, return_dict=True)) == {"loss", "accuracy"}


def test_an_unknown_metric_is_refused() -> None:
    with (
        distributed(classifier(), metrics=["nosuch"]) as trainer,
        pytest.raises(ModelError, match=r"Metrics must be what keras.Model.compile takes, but .*nosuch"),
    ):
        trainer.step(next(batches((6,))))

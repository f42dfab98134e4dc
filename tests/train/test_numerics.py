"""Training under a strategy equals training in one process: same losses, same weights, same optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import autosync
from autosync.train import Trainer
from tests.train.models import (
    LOSS,
    all_reduce,
    batches,
    classifier,
    compressed,
    local_steps,
    mixture,
    noisy_classifier,
    tagger,
    words,
)

UNEVEN = (12, 12, 7, 12, 2, 1)
"""An uneven batch for three replicas, and two with fewer examples than replicas."""

OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "clipped, scheduled": lambda: keras.optimizers.Nadam(
        keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.5), global_clipnorm=0.05
    ),
}


def distributed(model: Any, optimizer: Any, strategy: Callable[[Any], Any] = mixture) -> Trainer:
    return autosync.distribute(model, LOSS, optimizer, strategy(model), backend="local", workers=3)


def in_one_process(model: Any, optimizer: Any, data: Any) -> list[float]:
    """Losses of plain Keras on whole batches."""
    model.compile(optimizer=optimizer, loss=LOSS, auto_scale_loss=False)
    losses = []
    for batch in data:
        model.reset_metrics()
        losses.append(float(model.train_on_batch(*batch)))
    return losses


def assert_alike(model: Any, expected_model: Any, tolerance: float = 1e-5) -> None:
    """Two compiled models have the same weights, slots, iteration and learning rate.

    Keras itself saves no dropout seeds.
    """
    for variable, expected in zip(_all(model), _all(expected_model), strict=True):
        np.testing.assert_allclose(
            variable.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance, err_msg=variable.path
        )


def _all(model: Any) -> list[Any]:
    return [
        variable for variable in (*model.variables, *model.optimizer.variables) if "seed_generator" not in variable.path
    ]


@pytest.mark.parametrize("name", ["momentum", "clipped, scheduled"])
def test_uneven_batches_train_as_in_one_process(name: str) -> None:
    model, plain = classifier(), classifier()
    with distributed(model, OPTIMIZERS[name]()) as trainer:
        losses = [trainer.step(batch) for batch in batches(UNEVEN)]
        trainer.update_model()
    expected = in_one_process(plain, OPTIMIZERS[name](), batches(UNEVEN))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert_alike(model, plain)


def test_sparse_rows_of_uneven_batches_train_by_the_optimizers_own_rule() -> None:
    """Keras leaves rows unchanged that a batch does not use; here all rows follow Adam's rule."""
    model, plain, optimizer = tagger(), tagger(), OPTIMIZERS["adam"]()
    with distributed(model, OPTIMIZERS["adam"]()) as trainer:
        losses = [trainer.step(batch) for batch in words(UNEVEN)]
        assert trainer.spec is not None
        assert [variable.name for variable in trainer.spec.variables if variable.sparse] == ["table/embeddings"]
        trainer.update_model()
    expected = []
    for inputs, labels in words(UNEVEN):
        with tf.GradientTape() as tape:
            loss = LOSS(labels, plain(inputs))
        gradients = tape.gradient(loss, [variable.value for variable in plain.trainable_variables])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients], plain.trainable_variables)
        expected.append(float(loss))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for variable, plain_variable in zip(model.variables, plain.variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), plain_variable.numpy(), rtol=1e-5, atol=1e-5)


def test_a_saved_file_is_keras_own_and_training_goes_on_from_it_there_and_here(tmp_path: Any) -> None:
    file = tmp_path / "deep" / "model.keras"
    with distributed(classifier(), OPTIMIZERS["adam"]()) as trainer:
        for batch in batches(UNEVEN):
            trainer.step(batch)
        assert trainer.save(file) == file
        loaded, again = keras.models.load_model(file), keras.models.load_model(file)
        assert loaded.optimizer.get_config() == trainer.model.optimizer.get_config()
        assert int(loaded.optimizer.iterations.numpy()) == len(UNEVEN)
        assert type(loaded.loss) is type(LOSS)
        assert_alike(loaded, trainer.model, 0.0)
        there = in_one_process(loaded, loaded.optimizer, batches(UNEVEN, seed=1))
        here = [trainer.step(batch) for batch in batches(UNEVEN, seed=1)]
        trainer.update_model()
        assert_alike(loaded, trainer.model)
    with autosync.distribute(again, again.loss, again.optimizer, all_reduce(again), backend="local") as next_trainer:
        taken_up = [next_trainer.step(batch) for batch in batches(UNEVEN, seed=1)]
        assert next_trainer.steps == 2 * len(UNEVEN)
    np.testing.assert_allclose(here, there, rtol=1e-5)
    np.testing.assert_allclose(taken_up, there, rtol=1e-5)


@pytest.mark.parametrize("strategy", [compressed, local_steps], ids=["compressed", "meeting seldom"])
def test_a_restored_trainer_goes_on_as_if_it_had_never_stopped(strategy: Callable[[Any], Any], tmp_path: Any) -> None:
    def trained(trainer: Trainer, seed: int) -> list[float]:
        return [trainer.step(batch) for batch in batches((12, 12, 9), seed)]

    with distributed(noisy_classifier(), OPTIMIZERS["adam"](), strategy) as trainer:
        trained(trainer, 0)
        trainer.save(tmp_path / "first.keras")
        uninterrupted = trained(trainer, 1)
        trainer.save(tmp_path / "second.keras")
        trainer.restore(tmp_path / "first.keras")
        assert (trained(trainer, 1), trainer.steps) == (uninterrupted, 6)
    with distributed(noisy_classifier(), OPTIMIZERS["adam"](), strategy) as moved:
        moved.restore(tmp_path / "first.keras")  # loaded with the first step
        assert trained(moved, 1) == uninterrupted
        moved.save(tmp_path / "third.keras")
    with distributed(noisy_classifier(), OPTIMIZERS["adam"](), all_reduce) as another:
        another.restore(tmp_path / "first.keras")  # a plain strategy gives all replicas the mean of the values
        all_had_it = strategy is compressed
        assert (trained(another, 1)[0] == pytest.approx(uninterrupted[0], rel=1e-5)) == all_had_it
    second, third = (keras.models.load_model(tmp_path / f"{name}.keras") for name in ("second", "third"))
    assert_alike(second, third, 0.0)


def test_a_file_that_keras_wrote_is_gone_on_from(tmp_path: Any) -> None:
    plain = classifier()
    in_one_process(plain, OPTIMIZERS["adam"](), batches(UNEVEN))
    plain.save(tmp_path / "plain.keras")
    expected = in_one_process(plain, plain.optimizer, batches(UNEVEN, seed=1))
    with distributed(classifier(), OPTIMIZERS["adam"](), all_reduce) as trainer:
        trainer.restore(tmp_path / "plain.keras")
        losses = [trainer.step(batch) for batch in batches(UNEVEN, seed=1)]
        assert trainer.steps == 2 * len(UNEVEN)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_moving_averages_are_saved_as_the_mean_over_replicas() -> None:
    with distributed(noisy_classifier(), OPTIMIZERS["adam"](), all_reduce) as trainer:
        features, labels = next(batches((12,)))
        trainer.step((features, labels))
        trainer.update_model()
        hidden = trainer.model.get_layer("norm")
    plain = noisy_classifier()
    means = [
        keras.Model(plain.input, plain.get_layer("hidden").output)(features[begin : begin + 4]).numpy().mean(0)
        for begin in (0, 4, 8)
    ]
    np.testing.assert_allclose(hidden.moving_mean.numpy(), 0.01 * np.mean(means, 0), rtol=1e-4, atol=1e-6)

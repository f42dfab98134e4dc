"""Losses of several outputs, with or without weights, sum up as in `keras.Model.fit`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from autosync.errors import ModelError
from tests.train.as_keras import Case, distributed, seeded, trains_as_keras
from tests.train.models import CLASSES, FEATURES, LOSS

layers = keras.layers


def two_headed(by_name: bool = False) -> Any:
    """A model with classes and a number as outputs, as a list or by name."""
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(7, "tanh", name="hidden")(inputs)
    outputs = [layers.Dense(CLASSES, name="kind")(hidden), layers.Dense(1, name="size")(hidden)]
    return keras.Model(inputs, dict(zip(("kind", "size"), outputs, strict=True)) if by_name else outputs)


def batches_of_two(by_name: bool = False) -> Any:
    """Three batches of nine, with targets for both outputs."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        features = generator.normal(size=(9, FEATURES)).astype("float32")
        targets = np.arange(9) % CLASSES, generator.normal(size=(9, 1)).astype("float32")
        yield features, {"kind": targets[0], "size": targets[1]} if by_name else targets


def test_a_list_of_losses_is_summed_up() -> None:
    trains_as_keras(Case(seeded(two_headed), loss=[LOSS, "mse"], data=batches_of_two))


def test_losses_by_name_are_summed_up() -> None:
    def own(targets: Any, outputs: Any) -> Any:
        return keras.ops.abs(targets - outputs)

    case = Case(seeded(lambda: two_headed(True)), loss={"kind": LOSS, "size": own}, data=lambda: batches_of_two(True))
    trains_as_keras(case)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_weights_of_losses_that_a_model_is_compiled_with_count(fresh: bool, several: bool) -> None:
    loss, weights = ([LOSS, "mse"], [0.25, 3.0]) if several else (LOSS, 0.5)

    def make() -> Any:
        model = two_headed() if several else keras.Model(*(lambda m: (m.input, m.output[0]))(two_headed()))
        model.compile(keras.optimizers.SGD(0.1), loss, loss_weights=weights)
        return model

    def data() -> Any:
        return [(x, y if several else y[0]) for x, y in batches_of_two()]

    plain = seeded(make)()
    expected = [plain.train_on_batch(*batch) for batch in data()]
    model = seeded(make)()
    optimizer = keras.optimizers.SGD(0.1) if fresh else model.optimizer
    case = Case(lambda: model, loss=model.loss, optimizer=lambda: optimizer, data=data)
    _, losses, _ = distributed(case)
    for variable, plain_variable in zip(model.trainable_variables, plain.trainable_variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), plain_variable.numpy(), rtol=1e-5, atol=1e-5)
    first = expected[0][0] if isinstance(expected[0], list) else expected[0]
    assert losses[0] == pytest.approx(float(first), rel=1e-5)
    assert model._compile_loss._user_loss_weights == weights


def test_an_unknown_loss_of_several_is_refused() -> None:
    case = Case(seeded(two_headed), loss=[LOSS, "nonsense"], data=batches_of_two)
    with pytest.raises(ModelError, match="names the loss 'nonsense', which Keras does not know"):
        distributed(case)

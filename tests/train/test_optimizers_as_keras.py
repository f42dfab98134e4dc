"""Optimizers update variables as in `keras.Model.fit`, even if they treat variables differently."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from tests.train.as_keras import Case, distributed, seeded, stacked, trains_as_keras
from tests.train.models import LOSS, all_reduce, batches, classifier, mixture, tagger, words

layers = keras.layers


@pytest.fixture
def half_precision() -> Any:
    """Layers created in the test compute in float16."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(policy)


@pytest.mark.usefixtures("half_precision")
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_loss_is_scaled_under_mixed_float16_as_compile_does_it(replicas: int) -> None:
    """Three replicas add halves with fewer digits; one replica gives exactly Keras' numbers."""
    case = Case(classifier, optimizer=lambda: keras.optimizers.Adam(0.01), replicas=replicas)
    model, plain, _ = trains_as_keras(case, 1e-5 if replicas == 1 else 5e-3)
    assert type(model.optimizer) is type(plain.optimizer) is keras.optimizers.LossScaleOptimizer
    for variable, expected in zip(model.optimizer.variables, plain.optimizer.variables, strict=True):
        if variable.path.endswith("step_counter"):  # steps since the last change of the scale, which the workers count
            continue
        np.testing.assert_allclose(variable.numpy(), expected.numpy(), rtol=2e-2, atol=1e-3, err_msg=variable.path)


@pytest.mark.usefixtures("half_precision")
def test_an_optimizer_that_keras_has_wrapped_already_goes_on_where_it_was() -> None:
    model, data = classifier(), list(batches((12,)))
    inner = keras.optimizers.Adam(0.01)
    model.compile(inner, LOSS)
    model.fit(*data[0], batch_size=12, verbose=0)
    expected = model.optimizer
    _, losses, _ = distributed(Case(lambda: model, optimizer=lambda: inner, data=lambda: data, replicas=1))
    assert model.optimizer is expected
    assert int(inner.iterations.numpy()) == 2
    assert losses[0] < float(LOSS(data[0][1], classifier()(data[0][0])))


def without_decay(**options: Any) -> Any:
    """The usual recipe for transformers: no weight decay of biases and of the factors of normalization."""
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias", "norm/"])  # the pattern matches a layer's name too
    return optimizer


class ByLayer(keras.optimizers.SGD):
    """A learning rate for each layer."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate * (0.1 if "hidden" in variable.name else 1.0))


RULES = {
    "excluded": without_decay,
    "excluded and clipped": lambda: without_decay(global_clipnorm=0.5),
    "by layer": lambda: ByLayer(0.1, momentum=0.9),
}


@pytest.mark.parametrize("strategy", [all_reduce, mixture], ids=["all-reduce", "mixture"])
@pytest.mark.parametrize("name", RULES)
def test_an_optimizer_may_treat_variables_in_different_ways(name: str, strategy: Any) -> None:
    def make() -> Any:
        return stacked(layers.Dense(7, "tanh", name="hidden"), layers.LayerNormalization(name="norm"))

    trains_as_keras(Case(seeded(make), optimizer=RULES[name], strategy=strategy))


def test_a_table_may_be_excluded_from_weight_decay() -> None:
    def optimizer(model: Any) -> Any:
        sgd = keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.5)
        sgd.exclude_from_weight_decay(var_list=[model.get_layer("table").embeddings])
        return sgd

    models: list[Any] = []

    def make() -> Any:
        models.append(tagger())
        return models[-1]

    case = Case(make, optimizer=lambda: optimizer(models[-1]), data=lambda: words((12, 9)))
    trains_as_keras(case)


def test_a_constraint_of_single_elements_holds_as_in_keras() -> None:
    def make() -> Any:
        return stacked(layers.Dense(7, "tanh", kernel_constraint="non_neg", name="hidden"))

    model, _, _ = trains_as_keras(Case(seeded(make), strategy=mixture))
    assert model.get_layer("hidden").kernel.numpy().min() == 0


@pytest.mark.usefixtures("half_precision")
def test_the_loss_is_not_scaled_where_compile_was_told_so() -> None:
    model = classifier()
    model.compile(keras.optimizers.Adam(0.01), LOSS, auto_scale_loss=False)
    trained, _, _ = distributed(Case(lambda: model, optimizer=lambda: model.optimizer, data=lambda: batches((12,))))
    assert type(trained.optimizer) is keras.optimizers.Adam


@pytest.mark.parametrize(
    "setting", [{"run_eagerly": True}, {"jit_compile": True}, {"steps_per_execution": 2}, {"metrics": ["accuracy"]}]
)
def test_settings_of_compile_that_change_no_numbers_are_left_alone(setting: Any) -> None:
    model, plain = classifier(), classifier()
    model.compile(keras.optimizers.Adam(0.01), LOSS, **setting)
    plain.compile(keras.optimizers.Adam(0.01), LOSS)
    data = list(batches((12, 9)))
    for batch in data:
        plain.train_on_batch(*batch)
    _, _, notes = distributed(Case(lambda: model, optimizer=lambda: model.optimizer, data=lambda: data))
    for variable, expected in zip(model.variables, plain.variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    assert any("compiled metrics are not reported" in note for note in notes) == ("metrics" in setting)


def test_a_learning_rate_may_be_a_function() -> None:
    trains_as_keras(Case(classifier, optimizer=lambda: keras.optimizers.SGD(lambda: 0.1)))

"""Models train as `keras.Model.fit` trains them on the whole batch, or are refused in one sentence."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from autosync.errors import ModelError, TrainingError
from tests.train.as_keras import Case, distributed, fitted, seeded, stacked, trains_as_keras
from tests.train.models import CLASSES, FEATURES, LOSS, classifier

layers = keras.layers


class WithoutTraining(keras.Model):
    """A model whose `call` has no `training` argument: Keras runs its dropout as in inference."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.logits = layers.Dense(7, "tanh", name="hidden"), layers.Dense(CLASSES, name="logits")
        self.drop, self.norm = layers.Dropout(0.5, name="drop"), layers.BatchNormalization(name="norm")

    def call(self, inputs: Any) -> Any:
        return self.logits(self.norm(self.drop(self.hidden(inputs))))


def test_a_call_without_a_training_argument_runs_as_keras_runs_it() -> None:
    model, _, _ = trains_as_keras(Case(seeded(WithoutTraining)))
    assert np.all(model.norm.moving_mean.numpy() == 0)


class Counted(layers.Layer):
    """Counts the calls in training, and all calls."""

    def build(self, _: Any) -> None:
        self.trained = self.add_weight(shape=(), dtype="int32", trainable=False, name="trained")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")
        self.telling = layers.Dropout(0.5)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        self.calls.assign_add(1.0)
        if training:
            self.trained.assign_add(1)
        return inputs * (1 + 0.1 * self.calls)


class Block(layers.Layer):
    """A layer of layers without a `training` argument: Keras passes the mode on to the inner layers."""

    def __init__(self, inner: Any, **options: Any) -> None:
        super().__init__(**options)
        self.inner = inner

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("built", [False, True])
def test_assignments_of_a_layer_are_made_once_a_step_and_never_before(wrapped: bool, built: bool) -> None:
    def make() -> Any:
        counted = Counted(name="counted")
        inner = [Block(counted, name="block") if wrapped else counted, layers.Dense(CLASSES, name="logits")]
        return keras.Sequential([keras.Input((FEATURES,)), *inner] if built else inner)

    model, _, notes = trains_as_keras(Case(seeded(make)))
    counted = model.layers[0].inner if wrapped else model.layers[0]
    assert (counted.trained.numpy(), counted.calls.numpy()) == (4, 4.0)
    assert not any("changes" in note for note in notes)


class Averaging(layers.Layer):
    """Keeps a moving mean of its inputs and subtracts it."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False, name="average")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, 0))
        return inputs - self.mean


def test_state_that_follows_each_replicas_part_of_the_batch_is_noted() -> None:
    case = Case(seeded(lambda: stacked(Averaging(name="averaging"))))
    _, _, notes = distributed(case)
    assert any("averaging/average: each replica does so by its own part of the batch" in note for note in notes)
    trains_as_keras(Case(case.make, replicas=1))


class Renormed(layers.Layer):
    """Assigns to the weight that it trains."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], CLASSES), name="kernel")

    def call(self, inputs: Any) -> Any:
        self.kernel.assign(self.kernel / 2.0)
        return inputs @ self.kernel


def test_assigning_to_a_trained_variable_is_refused() -> None:
    case = Case(seeded(lambda: keras.Sequential([keras.Input((FEATURES,)), Renormed(name="renormed")])))
    with pytest.raises(
        ModelError, match=r"this one assigns to '.*renormed/kernel', which is; make that variable with tra"
    ):
        distributed(case)


class Shifted(layers.Layer):
    """Adds a weight that is not trained, and counts calls with another weight."""

    def build(self, shape: Any) -> None:
        self.shift = self.add_weight(shape=shape[1:], trainable=False, name="shift")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs: Any) -> Any:
        self.calls.assign_add(1.0)
        return inputs + self.shift


def twins(frozen: bool) -> Any:
    """Two sub-models with equal layer names, one of them perhaps frozen."""
    inputs = keras.Input((FEATURES,))
    outputs = []
    for number in range(2):
        rows = keras.Input((FEATURES,))
        hidden = layers.Dense(4, "tanh", name="hidden")(rows)
        model = keras.Model(rows, Shifted(name="shifted")(hidden), name=f"twin{number}")
        model.trainable = not (frozen and number)
        outputs.append(model(inputs))
    return keras.Model(inputs, layers.Dense(CLASSES, name="logits")(layers.Concatenate()(outputs)))


@pytest.mark.parametrize("frozen", [False, True])
def test_sub_models_whose_layers_have_equal_names_keep_their_own_variables_and_state(frozen: bool) -> None:
    def make() -> Any:
        model = twins(frozen)
        for number, variable in enumerate(model.non_trainable_variables):
            variable.assign(np.random.default_rng(number).normal(size=variable.shape))
        return model

    assert len({variable.path for variable in make().variables}) < len(make().variables)
    trains_as_keras(Case(seeded(make), optimizer=lambda: keras.optimizers.Adam(0.01)))


def test_a_loss_may_read_the_models_variables() -> None:
    """A hand-coded penalty that reads the trained weights."""
    models: list[Any] = []

    def make() -> Any:
        models.append(classifier())
        return models[-1]

    def loss(targets: Any, outputs: Any) -> Any:
        penalty = keras.ops.sum(models[-1].get_layer("hidden").kernel ** 2)
        return LOSS(targets, outputs) + 0.1 * penalty

    trains_as_keras(Case(make, loss=loss))


class Penalized(layers.Layer):
    """Adds a loss for each example, as a vector, which Keras sums."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.mean(inputs**2, axis=0))
        return inputs


def test_losses_that_layers_add_count() -> None:
    trains_as_keras(
        Case(
            seeded(
                lambda: stacked(
                    layers.Dense(5, activity_regularizer="l2", kernel_regularizer="l1", name="hidden"),
                    Penalized(name="penalized"),
                )
            )
        )
    )


class Summed(layers.Layer):
    """Adds a loss that grows with the number of examples."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * keras.ops.sum(inputs**2))
        return inputs


class Centered(layers.Layer):
    """Subtracts the batch's mean, in inference too."""

    def call(self, inputs: Any) -> Any:
        return inputs - keras.ops.mean(inputs, axis=0)


@pytest.mark.parametrize("layer", [Summed, Centered])
def test_a_loss_that_mixes_examples_outside_of_the_loss_function_is_refused(layer: Any) -> None:
    message = r"An example's loss must not depend on the others in its batch, .* the cause is a layer that "
    with pytest.raises(ModelError, match=message):
        distributed(Case(seeded(lambda: stacked(layer()))))


class Sampled(layers.Layer):
    """Adds noise in inference too, and its size as a loss, as a variational autoencoder does."""

    def build(self, _: Any) -> None:
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.mean(inputs**2))
        return inputs + 0.1 * keras.random.normal(keras.ops.shape(inputs), seed=self.seeds)


def test_a_model_that_draws_random_numbers_trains_as_in_keras_on_one_replica() -> None:
    case = Case(seeded(lambda: stacked(Sampled(name="sampled"))), replicas=1)
    trains_as_keras(case)
    distributed(Case(case.make))


OVERRIDES = {
    "train_step": lambda self, data: keras.Model.train_step(self, data),
    "compute_loss": lambda self, **given: keras.Model.compute_loss(self, **given),
    "make_train_function": lambda self, force=False: keras.Model.make_train_function(self, force),
    "fit": lambda self, *given, **named: keras.Model.fit(self, *given, **named),
    "compile": lambda self, *given, **named: keras.Model.compile(self, *given, **named),
}


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("of_class", [True, False])
def test_an_overridden_method_of_training_is_refused_by_name(name: str, of_class: bool) -> None:
    def make() -> Any:
        if of_class:
            inputs = keras.Input((FEATURES,))
            return type("Own", (keras.Model,), {name: OVERRIDES[name]})(inputs, layers.Dense(CLASSES)(inputs))
        model = classifier()
        setattr(model, name, OVERRIDES[name].__get__(model))
        return model

    with pytest.raises(ModelError, match=rf"The model must train by Keras's own {name}, but .* overrides {name}, .*;"):
        distributed(Case(make))


def test_overridden_reports_are_noted_and_an_overridden_test_step_stays_keras_own_business() -> None:
    class Reporting(keras.Model):
        def compute_metrics(self, *given: Any, **named: Any) -> Any:
            return {**super().compute_metrics(*given, **named), "mine": 1.0}

        @property
        def metrics(self) -> Any:
            return super().metrics

        def test_step(self, data: Any) -> Any:
            return {**super().test_step(data), "tested": 2.0}

    def make() -> Any:
        inputs = keras.Input((FEATURES,))
        return Reporting(inputs, layers.Dense(CLASSES, name="logits")(inputs))

    model, _, notes = trains_as_keras(Case(seeded(make)))
    assert "Reporting overrides compute_metrics, metrics, which training does not call" in " ".join(notes)
    assert model.evaluate(*next(iter(Case(make).data())), verbose=0, return_dict=True)["tested"] == 2.0


def test_metrics_that_the_forward_pass_updates_are_noted_as_not_reported() -> None:
    class Measuring(layers.Layer):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.size = keras.metrics.Mean(name="size")

        def call(self, inputs: Any) -> Any:
            self.size.update_state(keras.ops.mean(inputs))
            return inputs

    _, _, notes = trains_as_keras(Case(seeded(lambda: stacked(Measuring(name="measuring")))))
    assert "updates metrics of its own (size), which are not reported" in " ".join(notes)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_stateful_recurrent_layers_carry_their_examples_state(kind: str) -> None:
    """Two replicas, each with its own four of eight examples in every step."""

    def make(examples: int) -> Any:
        inputs = keras.Input((3, 2), batch_size=examples)
        hidden = getattr(layers, kind)(5, stateful=True, name="carried")(inputs)
        return keras.Model(inputs, layers.Dense(CLASSES, name="logits")(hidden), name="carrying")

    def data() -> Any:
        generator = np.random.default_rng(1)
        return [(generator.normal(size=(8, 3, 2)).astype("float32"), np.arange(8) % 3) for _ in range(4)]

    def case(examples: int, replicas: int) -> Case:
        return Case(seeded(lambda: make(examples)), data=data, replicas=replicas)

    plain, expected = fitted(case(8, 1))
    model, losses, notes = distributed(case(4, 2))
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for variable, plain_variable in zip(model.variables, plain.variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), plain_variable.numpy(), rtol=1e-5, atol=1e-5)
    assert "Each replica carries its own examples' state from step to step in" in " ".join(notes)
    alone, _, _ = trains_as_keras(case(8, 1))
    for variable, plain_variable in zip(
        alone.get_layer("carried").states, plain.get_layer("carried").states, strict=True
    ):
        np.testing.assert_allclose(variable.numpy(), plain_variable.numpy(), rtol=1e-5, atol=1e-5)


def _of_words(lookup: Any, dtype: str) -> Any:
    words = keras.Input(() if isinstance(lookup, layers.TextVectorization) else (4,), dtype=dtype)
    rows = layers.GlobalAveragePooling1D()(layers.Embedding(20, 5)(lookup(words)))
    return keras.Model(words, layers.Dense(CLASSES, name="logits")(rows))


LOOKUPS = {
    "IntegerLookup": (lambda: _of_words(layers.IntegerLookup(vocabulary=[7, 8, 9], name="looked"), "int64"), [[7] * 4]),
    "StringLookup": (lambda: _of_words(layers.StringLookup(vocabulary=["a"], name="looked"), "string"), [["a"] * 4]),
    "TextVectorization": (
        lambda: _of_words(layers.TextVectorization(vocabulary=["a", "b"], name="looked"), "string"),
        [b"a b"],
    ),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_layers_that_look_up_in_a_table_are_refused_with_the_remedy(name: str) -> None:
    make, row = LOOKUPS[name]
    case = Case(seeded(make), data=lambda: [(np.array(row * 6), np.arange(6) % 3)])
    message = r"('looked' looks values up in one|strings, which replicas cannot look up).*the data before training"
    with pytest.raises((ModelError, TrainingError), match=message):
        distributed(case)


def test_layers_that_prepare_numbers_without_a_table_train_as_in_keras() -> None:
    def make() -> Any:
        numbers = keras.Input((4,))
        scaled = layers.Normalization(mean=0.5, variance=2.0)(layers.Rescaling(0.5)(numbers))
        kinds = layers.Discretization([-1.0, 0.0, 1.0], name="kinds")(numbers)
        coded = layers.CategoryEncoding(4, "count", name="coded")(kinds)
        hashed = layers.Embedding(5, 3)(layers.Hashing(5, name="hashed")(kinds))
        merged = layers.Concatenate()([scaled, coded, layers.Flatten()(hashed)])
        return keras.Model(numbers, layers.Dense(CLASSES, name="logits")(merged))

    def data() -> Any:
        return [(np.random.default_rng(n).normal(size=(9, 4)).astype("float32"), np.arange(9) % 3) for n in range(3)]

    trains_as_keras(Case(seeded(make), data=data, optimizer=lambda: keras.optimizers.SGD(0.1)))


class Drawing(layers.Layer):
    """Draws from Keras's global generator, which no layer holds."""

    def call(self, inputs: Any) -> Any:
        return inputs + keras.random.normal(keras.ops.shape(inputs))


def test_random_numbers_of_a_global_generator_are_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"one that no layer holds; .* a keras\.random\.SeedGenerator that the layer"):
        distributed(Case(seeded(lambda: stacked(Drawing(name="drawing")))))


@pytest.mark.parametrize("name", ["trainable_weights", "trainable_variables"])
def test_an_overridden_list_of_trained_variables_is_refused(name: str) -> None:
    def make() -> Any:
        sliced = property(lambda self: getattr(super(type(self), self), name)[:1])
        inputs = keras.Input((FEATURES,))
        return type("Own", (keras.Model,), {name: sliced})(inputs, layers.Dense(CLASSES)(inputs))

    with pytest.raises(ModelError, match=rf"overrides {name}, which autosync does not call; set `trainable` of layers"):
        distributed(Case(make))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_mask_on_the_outputs_is_noted(replicas: int) -> None:
    def make() -> Any:
        ids = keras.Input((4,), dtype="int32")
        rows = layers.Embedding(9, 5, mask_zero=True, name="table")(ids)
        return keras.Model(ids, layers.Dense(CLASSES, name="logits")(layers.LSTM(6, return_sequences=True)(rows)))

    def data() -> Any:
        generator = np.random.default_rng(0)
        return [(generator.integers(0, 3, (9, 4), "int32"), generator.integers(0, CLASSES, (9, 4))) for _ in range(2)]

    case = Case(seeded(make), data=data, replicas=replicas, optimizer=lambda: keras.optimizers.SGD(0.1))
    _, _, notes = distributed(case)
    assert "The model's outputs carry a mask: a replica divides its loss by the unmasked positions" in " ".join(notes)
    if replicas == 1:
        trains_as_keras(case)

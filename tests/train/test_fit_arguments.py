"""Every argument of `keras.Model.fit` is honoured by `Trainer.fit`, or refused by name."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest

from autosync.errors import TrainingError
from autosync.train import Sharded, Trainer
from tests.train.beside_keras import DATA, arrays, assert_alike, dataset, new_trainer, plain_model


def beside_keras(**arguments: Any) -> tuple[Any, Any]:
    """Return the histories of `keras.Model.fit` and `Trainer.fit` on arrays, and compare their models."""
    x, y = arrays()
    arguments = {"batch_size": 11, "shuffle": False} | arguments
    plain = plain_model(metrics=["accuracy"])
    expected = plain.fit(x, y, verbose=0, **arguments)
    with new_trainer(metrics=["accuracy"]) as trainer:
        history = trainer.fit(x, y, **arguments)
        assert_alike(trainer.model, plain)
    assert sorted(history.history) == sorted(expected.history)
    for name, values in expected.history.items():
        np.testing.assert_allclose(history.history[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    assert history.epoch == expected.epoch
    return expected, history


def test_every_argument_of_keras_fit_is_known() -> None:
    known = set(inspect.signature(Trainer.fit).parameters) | {"x"}
    assert set(inspect.signature(keras.Model.fit).parameters) <= known


def test_arrays_are_cut_into_batches_as_by_keras() -> None:
    beside_keras(epochs=2)


def test_passes_are_numbered_from_the_initial_epoch() -> None:
    _, history = beside_keras(epochs=5, initial_epoch=3)
    assert history.epoch == [3, 4]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_steps_of_a_pass_go_on_in_the_data(steps: int) -> None:
    beside_keras(epochs=4, steps_per_epoch=steps)


def test_too_few_data_for_the_steps_of_a_pass_are_told() -> None:
    with new_trainer() as trainer:
        with pytest.warns(UserWarning, match=r"A pass ended after 3 of 5 steps \(steps_per_epoch\)"):
            history = trainer.fit(iter(DATA), epochs=1, steps_per_epoch=5)
        assert len(history) == 3


@pytest.mark.parametrize("freq", [1, 2, [1, 3]])
def test_validation_data_are_evaluated_as_often_as_asked(freq: Any) -> None:
    x, y = arrays()
    validation = {"validation_data": (x[:9] * 2, y[:9]), "validation_batch_size": 4, "validation_freq": freq}
    _, history = beside_keras(epochs=3, **validation)
    assert len(history.history["val_loss"]) == {"1": 3, "2": 1, "[1, 3]": 2}[str(freq)]


def test_validation_of_a_part_of_the_data_and_of_some_steps() -> None:
    x, y = arrays()
    beside_keras(epochs=2, validation_split=0.25)
    beside_keras(epochs=2, validation_data=(x, y), validation_batch_size=8, validation_steps=2)


def test_validation_on_a_list_of_batches_and_with_a_loss_of_ones_own() -> None:
    def loss(targets: Any, outputs: Any) -> Any:
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True))

    with new_trainer() as trainer, new_trainer(loss=loss) as by_function:
        expected = trainer.fit(DATA, epochs=2, validation_data=DATA).history
        logs = by_function.fit(DATA, epochs=2, validation_data=DATA).history
    assert sorted(logs) == ["loss", "val_loss"]
    for name, values in logs.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5)


def test_arrays_are_shuffled_unless_told_not_to() -> None:
    x, y = arrays()
    seen: list[Any] = []
    with new_trainer() as trainer:
        trainer.prepare(DATA[0])
        step = trainer._running.step  # type: ignore[union-attr]
        trainer._running.step = lambda batch: (seen.append(np.asarray(batch[0])), step(batch))[1]  # type: ignore
        trainer.fit(x, y, batch_size=len(x))
        trainer.fit(x, y, batch_size=len(x), shuffle=False)
    shuffled, in_order = seen
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(x, axis=0))
    assert not np.array_equal(shuffled, x)
    np.testing.assert_array_equal(in_order, x)


def test_a_py_dataset_is_read_with_its_hooks() -> None:
    class Data(keras.utils.PyDataset):
        """`DATA`, in another order after each pass."""

        def __init__(self) -> None:
            super().__init__()
            self.order = [0, 1, 2]

        def __len__(self) -> int:
            return len(DATA)

        def __getitem__(self, index: int) -> Any:
            return DATA[self.order[index]]

        def on_epoch_end(self) -> None:
            self.order = [2, *self.order[:2]]

    plain = plain_model()
    plain.fit(Data(), epochs=3, shuffle=False, verbose=0)
    with new_trainer() as trainer:
        assert len(trainer.fit(Data(), epochs=3, shuffle=False)) == 9
        assert_alike(trainer.model, plain)


@pytest.mark.parametrize("weights", [{"class_weight": {0: 3.0, 2: 0.25}}, {"sample_weight": np.linspace(0, 2, 33)}])
def test_examples_may_have_weights(weights: dict[str, Any]) -> None:
    x, y = arrays()
    plain = plain_model(metrics=["accuracy"])
    expected = plain.fit(x, y, batch_size=11, shuffle=False, epochs=2, verbose=0, **weights).history
    with new_trainer(metrics=["accuracy"]) as trainer:
        history = trainer.fit(x, y, batch_size=11, shuffle=False, epochs=2, **weights).history
        assert_alike(trainer.model, plain)
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5)


def test_batches_may_hold_weights_or_get_those_of_their_classes() -> None:
    weights = {0: 3.0, 2: 0.25}
    weighted = [(x, y, np.asarray([weights.get(int(label), 1.0) for label in y])) for x, y in DATA]
    plain = plain_model()
    plain.fit(dataset(), class_weight=weights, verbose=0)
    for data, arguments in ((weighted, {}), (DATA, {"class_weight": weights}), (dataset(), {"class_weight": weights})):
        with new_trainer() as trainer:
            trainer.fit(data, **arguments)  # type: ignore[arg-type]
            assert_alike(trainer.model, plain)


def test_weights_of_classes_and_of_examples_are_not_for_the_same_batches() -> None:
    weighted = [(x, y, np.ones(len(y))) for x, y in DATA]
    with new_trainer() as trainer, pytest.raises(TrainingError, match=r"without weights of their own; leave one of"):
        trainer.fit(weighted, class_weight={0: 2.0})


def test_verbose_shows_keras_progress_bar(capsys: Any) -> None:
    with new_trainer() as trainer:
        trainer.fit(DATA)
        assert capsys.readouterr().out == ""
        trainer.fit(DATA, epochs=2, verbose=2)
    assert "Epoch 2/2" in capsys.readouterr().out


def test_zero_epochs_train_nothing() -> None:
    with new_trainer() as trainer:
        assert len(trainer.fit(DATA, epochs=0)) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"steps": 3, "epochs": 2},
            r"fit takes either steps, which counts all steps, or epochs, but was given",
        ),
        ({"epochs": 1.5}, r"epochs must be a whole number of 0 or more, not 1\.5\."),
        ({"steps_per_epoch": 0}, r"steps_per_epoch must be a whole number of 1 or more, not 0\."),
        ({"initial_epoch": -1}, r"initial_epoch must be a whole number of 0 or more, not -1\."),
        ({"validation_freq": 0}, r"validation_freq must be a whole number of passes, at least 1, or a list"),
        ({"batch_size": 3}, r"batch_size is for arrays, but the data are of list; batch the data themselves\."),
        ({"sample_weight": [1.0]}, r"sample_weight is for arrays, but the data are of list; let batches hold weights"),
        ({"validation_split": 0.2}, r"validation_split is for arrays, but the data are of list; give validation_data"),
        ({"workers": 3}, r"fit takes no argument 'workers'; set it on the PyDataset, or read with Sharded\."),
        ({"epoch": 3}, r"fit takes no argument 'epoch'; see docs/own-model\.md"),
        ({"verbose": 7}, r"verbose must be 0, 1, 2 or 'auto', not 7\."),
        ({"x": 7}, r"fit takes no argument 'x'; give the data as the first argument\."),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with new_trainer() as trainer, pytest.raises(TrainingError, match=sentence):
        trainer.fit(DATA, **arguments)


def test_class_weights_of_data_that_workers_read_are_refused() -> None:
    with (
        new_trainer() as trainer,
        pytest.raises(TrainingError, match=r"class_weight is not for Sharded, whose"),
    ):
        trainer.fit(Sharded(lambda *_: DATA), class_weight={0: 2.0})


def test_arrays_without_targets_are_refused() -> None:
    with new_trainer() as trainer, pytest.raises(TrainingError, match=r"Arrays need targets, as in fit\(x, y\)"):
        trainer.fit(arrays()[0])

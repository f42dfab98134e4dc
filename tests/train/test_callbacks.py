"""Callbacks work as in `keras.Model.fit`: they read current weights, and training adopts the weights they set."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from autosync.errors import TrainingError
from autosync.train import Trainer
from tests.train.beside_keras import DATA, arrays, assert_alike, dataset, keras_fit, new_trainer, plain_model

HOOKS = (
    "on_train_begin",
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_epoch_end",
    "on_train_end",
)


class Sets(keras.callbacks.Callback):
    """Adds `added` to the first kernel and the last bias at the second call of `hook`."""

    def __init__(self, hook: str, added: float = 0.25) -> None:
        super().__init__()
        self.calls = 0
        self.added = added
        setattr(self, hook, self.at_hook)
        self.wanted = 1 if hook in ("on_train_begin", "on_train_end") else 2

    def at_hook(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self.calls == self.wanted:
            weights = self.model.get_weights()
            self.model.set_weights([weights[0] + self.added, *weights[1:-1], weights[-1] - self.added])


def both(callbacks: Callable[[], Sequence[Any]], **arguments: Any) -> tuple[Trainer, Any]:
    """Return (trainer, plain model) after two passes with the same callbacks."""
    arguments = {"epochs": 2} | arguments
    plain, _ = keras_fit(callbacks, **arguments)
    trainer = new_trainer()
    trainer.fit(DATA, callbacks=list(callbacks()), **arguments)
    return trainer, plain


@pytest.mark.parametrize("hook", HOOKS)
def test_weights_that_a_callback_sets_are_trained_on_and_saved(hook: str, tmp_path: Path) -> None:
    trainer, plain = both(lambda: [Sets(hook)])
    with trainer:
        assert_alike(trainer.model, plain)
        saved = keras.models.load_model(trainer.save(tmp_path / "saved.keras"))
        assert_alike(saved, plain)
        trainer.fit(DATA)
        plain.fit(dataset(), verbose=0)
        assert_alike(trainer.model, plain)


def test_weights_set_between_steps_are_trained_on(tmp_path: Path) -> None:
    trainer, plain = new_trainer(), plain_model()
    with trainer:
        for batch in DATA:
            trainer.step(batch)
            plain.train_on_batch(*batch)
        for model in (trainer.model, plain):
            model.layers[-1].set_weights([np.ones((7, 3)), np.zeros(3)])
        saved = keras.models.load_model(trainer.save(tmp_path / "saved.keras"))
        assert_alike(saved, plain)
        trainer.model.layers[-1].set_weights([np.full((7, 3), 0.5), np.zeros(3)])
        plain.layers[-1].set_weights([np.full((7, 3), 0.5), np.zeros(3)])
        trainer.step(DATA[0])
        plain.train_on_batch(*DATA[0])
        trainer.update_model()
        assert_alike(trainer.model, plain)


def test_early_stopping_restores_the_best_weights(tmp_path: Path) -> None:
    class Worse(keras.callbacks.Callback):
        """Makes passes after the second one worse."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            self.model.optimizer.learning_rate = 0.02 if epoch < 2 else 5.0

    def callbacks() -> list[Any]:
        stop = keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)
        return [Worse(), stop]

    trainer, plain = both(callbacks, epochs=8)
    with trainer:
        assert len(trainer.history.passes) < 8
        assert_alike(trainer.model, plain)
        assert_alike(keras.models.load_model(trainer.save(tmp_path / "best.keras")), plain)


def test_the_model_is_current_at_every_hook() -> None:
    class Sums(keras.callbacks.Callback):
        """Notes the sum of all weights, and the iteration, at every hook."""

        def __init__(self, into: list[Any]) -> None:
            super().__init__()
            for hook in HOOKS:
                setattr(self, hook, self.note)
            self.into = into

        def note(self, *_: Any, **__: Any) -> None:
            sums = [float(np.sum(weight)) for weight in self.model.get_weights()]
            self.into.append([int(self.model.optimizer.iterations.numpy()), *sums])

    lists: list[list[Any]] = [[], []]
    chosen = iter((lists[0], lists[1]))
    trainer, _ = both(lambda: [Sums(next(chosen))])
    with trainer:
        np.testing.assert_allclose(lists[1], lists[0], rtol=1e-4, atol=1e-5)


def test_evaluate_predict_and_save_within_a_hook_see_current_weights(tmp_path: Path) -> None:
    x, y = arrays()

    class Looks(keras.callbacks.Callback):
        """Evaluates, predicts and saves at every second batch."""

        def __init__(self, into: list[float], file: Path) -> None:
            super().__init__()
            self.into, self.file = into, file

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            if batch == 1:
                self.into.append(float(np.sum(self.model.predict(x, verbose=0))))
                self.into.append(self.model.evaluate(x, y, verbose=0))
                self.model.save(self.file)

    lists: list[list[float]] = [[], []]
    chosen = iter(((lists[0], tmp_path / "0.keras"), (lists[1], tmp_path / "1.keras")))
    trainer, _ = both(lambda: [Looks(*next(chosen))])
    with trainer:
        np.testing.assert_allclose(lists[1], lists[0], rtol=1e-4)
        assert_alike(keras.models.load_model(tmp_path / "1.keras"), keras.models.load_model(tmp_path / "0.keras"))


@pytest.mark.parametrize("save_freq", ["epoch", 2])
def test_model_checkpoint_saves_current_weights(save_freq: Any, tmp_path: Path) -> None:
    folders = iter((tmp_path / "keras", tmp_path / "here"))

    def callbacks() -> list[Any]:
        return [keras.callbacks.ModelCheckpoint(next(folders) / "{epoch}.keras", save_freq=save_freq)]

    trainer, _ = both(callbacks)
    with trainer:
        files = sorted(file.name for file in (tmp_path / "keras").iterdir())
        assert files == sorted(file.name for file in (tmp_path / "here").iterdir())
        for name in files:
            assert_alike(*(keras.models.load_model(tmp_path / side / name) for side in ("here", "keras")))


def test_a_backup_is_restored_with_its_epoch(tmp_path: Path) -> None:
    class Breaks(keras.callbacks.Callback):
        """Ends training with an error in the third pass."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            if epoch == 2:
                raise KeyError("broken")

    def backup(folder: str) -> Any:
        return keras.callbacks.BackupAndRestore(tmp_path / folder)

    with new_trainer() as broken, pytest.raises(KeyError):
        broken.fit(DATA, epochs=4, callbacks=[backup("here"), Breaks()])
    with pytest.raises(KeyError):
        keras_fit(lambda: [backup("keras"), Breaks()], epochs=4)
    plain, _ = keras_fit(lambda: [backup("keras")], epochs=4)
    with new_trainer() as trainer:
        history = trainer.fit(DATA, epochs=4, callbacks=[backup("here")])
        assert history.epoch == [2, 3]
        assert_alike(trainer.model, plain)


def test_a_plateau_lowers_the_learning_rate() -> None:
    trainer, plain = both(
        lambda: [keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=10.0)], epochs=4
    )
    with trainer:
        assert float(trainer.model.optimizer.learning_rate) < 0.02
        assert_alike(trainer.model, plain)


def test_a_rate_that_changes_with_every_batch_is_heeded() -> None:
    class Decays(keras.callbacks.Callback):
        """Halves the rate before each step, without looking at weights."""

        reads_model = False

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self.model.optimizer.learning_rate = self.model.optimizer.learning_rate * 0.5

    trainer, plain = both(lambda: [Decays()])
    with trainer:
        assert_alike(trainer.model, plain)


@pytest.mark.parametrize("hook", HOOKS[:5])
def test_training_stops_at_the_same_step_as_in_keras(hook: str) -> None:
    class Stops(keras.callbacks.Callback):
        """Asks for the end at the first call of its hook."""

        def __init__(self) -> None:
            super().__init__()
            setattr(self, hook, self.stop)

        def stop(self, *_: Any, **__: Any) -> None:
            self.model.stop_training = True

    trainer, plain = both(lambda: [Stops()], epochs=3)
    with trainer:
        assert trainer.steps == int(plain.optimizer.iterations.numpy())
        assert_alike(trainer.model, plain)


def test_a_loss_that_is_not_finite_ends_training() -> None:
    broken = [(np.full_like(DATA[0][0], np.nan), DATA[0][1]), DATA[1]]
    with new_trainer() as trainer:
        trainer.prepare(DATA[0])
        assert len(trainer.fit(broken, epochs=2, callbacks=[keras.callbacks.TerminateOnNaN()])) == 1


def test_logs_are_those_of_keras(tmp_path: Path) -> None:
    class Notes(keras.callbacks.Callback):
        """Notes the numbers and logs of batches and passes."""

        def __init__(self, into: list[Any]) -> None:
            super().__init__()
            self.into = into

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.into.append((batch, sorted(logs), list(logs.values())))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.into.append((epoch, sorted(logs), [logs[name] for name in sorted(logs)]))

    lists: list[list[Any]] = [[], []]
    plain = plain_model(metrics=["accuracy"])
    files = (tmp_path / "keras.csv", tmp_path / "here.csv")
    x, y = arrays()
    arguments = {"validation_data": (x, y), "epochs": 2}
    keras_fit(lambda: [Notes(lists[0]), keras.callbacks.CSVLogger(files[0])], plain, **arguments)
    with new_trainer(metrics=["accuracy"]) as trainer:
        trainer.fit(DATA, callbacks=[Notes(lists[1]), [keras.callbacks.CSVLogger(files[1])]], **arguments)
    for value, another in zip(*lists, strict=True):
        assert value[:2] == another[:2]
        np.testing.assert_allclose(sorted(value[2]), sorted(another[2]), rtol=1e-5)
    keras_rows, rows = (list(csv.DictReader(file.open())) for file in files)
    assert [sorted(row) for row in rows] == [sorted(row) for row in keras_rows]


def test_lambda_callbacks_and_a_single_callback_are_called() -> None:
    sums: list[float] = []
    with new_trainer() as trainer:
        trainer.fit(
            DATA,
            callbacks=keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: sums.append(float(np.sum(trainer.model.get_weights()[0])))  # noqa: ARG005
            ),
        )
    assert len(set(sums)) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda model: setattr(model, "trainable", False), r"must keep its trainable variables while it is trained"),
        (lambda model: setattr(model.layers[1], "trainable", False), r"`trainable` of the model or of a layer"),
        (
            lambda model: model.compile("sgd", "mse"),
            r"must keep its optimizer while it is trained",
        ),
        (
            lambda model: setattr(
                model.optimizer, "learning_rate", keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
            ),
            r"A learning rate must stay a number, or the same schedule",
        ),
    ],
)
def test_changes_that_need_a_new_trainer_are_refused(change: Callable[[Any], Any], sentence: str) -> None:
    with new_trainer() as trainer:
        changes = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: change(trainer.model))  # noqa: ARG005
        with pytest.raises(TrainingError, match=sentence):
            trainer.fit(DATA, callbacks=[changes])

"""Training by autosync on three replicas, compared with `keras.Model.fit` on the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

import autosync
from autosync.engine.tensorflow.capture.variables import names_of
from autosync.spec import AllReduce, Strategy, VariableStrategy
from tests.train.models import CLASSES, FEATURES, LOSS, REPLICAS, batches

__all__ = ["Case", "distributed", "fitted", "seeded", "stacked", "trains_as_keras"]


@dataclass(frozen=True)
class Case:
    """A training to compare: `make` returns the same model each time, and `optimizer` a new optimizer."""

    make: Callable[[], Any]
    loss: Any = LOSS
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.1, momentum=0.9)
    data: Callable[[], Any] = lambda: batches((12, 9, 12, 4))
    replicas: int = 3
    strategy: Callable[[Any], Strategy] | None = None


def trains_as_keras(case: Case, tolerance: float = 1e-5) -> tuple[Any, Any, tuple[str, ...]]:
    """Train both ways, compare the losses and all variables, and return the two models and the trainer's notes."""
    plain, expected = fitted(case)
    model, losses, notes = distributed(case)
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    for variable, plain_variable in zip(model.variables, plain.variables, strict=True):
        if "seed_generator" not in variable.path:
            np.testing.assert_allclose(
                variable.numpy(),
                plain_variable.numpy(),
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"{variable.path} after training",
            )
    return model, plain, notes


def fitted(case: Case) -> tuple[Any, list[float]]:
    """Return a model that Keras has fitted, with one step a batch, and its losses."""
    model = case.make()
    model.compile(case.optimizer(), case.loss)
    losses = []
    for batch in case.data():
        history = model.fit(*batch, batch_size=len(keras.tree.flatten(batch[1])[0]), epochs=1, shuffle=False, verbose=0)
        losses += history.history["loss"]
    return model, losses


def distributed(case: Case) -> tuple[Any, list[float], tuple[str, ...]]:
    """Return a model that autosync has trained, its losses and notes; by default all gradients are all-reduced."""
    model = case.make()
    named = case.make() if not model.built else model
    if not named.built:
        named(next(iter(case.data()))[0])
    names = names_of(named.trainable_variables)
    variables = tuple(VariableStrategy(name, (AllReduce(0),)) for name in names)
    strategy = case.strategy(named) if case.strategy else Strategy(REPLICAS[: case.replicas], variables)
    with autosync.distribute(model, case.loss, case.optimizer(), strategy, backend="local") as trainer:
        losses = [trainer.step(batch) for batch in case.data()]
        trainer.update_model()
        return trainer.model, losses, trainer.notes


def seeded(make: Any) -> Any:
    """Return `make` with the same random weights each time."""

    def made() -> Any:
        keras.utils.set_random_seed(5)
        return make()

    return made


def stacked(*inner: Any) -> Any:
    """Return a sequential model from `inner` to the logits."""
    return keras.Sequential([keras.Input((FEATURES,)), *inner, keras.layers.Dense(CLASSES, name="logits")])

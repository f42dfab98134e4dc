"""Runs the forward pass of Keras's own training step as a pure function of a model's variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from autosync.engine.tensorflow.capture.variables import state_variables
from autosync.errors import ModelError


@dataclass(frozen=True)
class Forward:
    """The results of one forward pass."""

    outputs: Any
    """The model's outputs."""
    loss: Any
    """The result of `loss_of`; None without it."""
    added: list[Any]
    """The losses that layers added."""
    state: list[Any]
    """The state after the pass, in the order of `state_variables`."""
    metrics: tuple[str, ...]
    """The names of the metrics that the pass itself has updated."""


def run_forward(
    model: Any,
    values: Sequence[Any],
    state: Sequence[Any],
    inputs: Any,
    loss_of: Callable[[Any], Any] | None = None,
    training: bool = True,
) -> Forward:
    """Call `model` like `keras.Model.train_step`, with `values` of its trainable variables and `state`.

    Assignments of the pass change only the result, never the model. `loss_of(outputs)` is computed in the same scope,
    so the loss may read the model's variables. Raises `ModelError` if the pass assigns to a trainable variable.
    """
    import keras
    import tensorflow as tf

    held = state_variables(model)
    metrics = [(metric, variable) for metric in _metrics_of_layers(model) for variable in metric.variables]
    mapping = [*zip(model.trainable_variables, values, strict=True), *zip(held, state, strict=True)]
    mapping += [(variable, tf.zeros(variable.shape, variable.dtype)) for _, variable in metrics]
    with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
        before = dict(scope.state_mapping)
        with _without_name_scope(model):
            # Like Keras, leave the argument out if `call` has none; layers inside then use their defaults.
            outputs = model(inputs, training=training) if model._call_has_training_arg else model(inputs)
        added = list(model.losses)
        loss = None if loss_of is None else loss_of(outputs)
    changed = {key for key, tensor in scope.state_mapping.items() if before.get(key) is not tensor}
    _refuse_assignments(
        model, changed - {id(variable) for variable in held} - {id(variable) for _, variable in metrics}
    )
    return Forward(
        outputs=outputs,
        loss=loss,
        added=added,
        state=[scope.get_current_value(variable) for variable in held],
        metrics=tuple(dict.fromkeys(metric.name for metric, variable in metrics if id(variable) in changed)),
    )


def run_inference(model: Any, inputs: Any, loss_of: Callable[[Any], Any] | None = None) -> Forward:
    """Run a forward pass in inference mode with the model's present variables, without changing them."""
    import tensorflow as tf

    values = [tf.convert_to_tensor(variable) for variable in model.trainable_variables]
    state = [tf.convert_to_tensor(variable) for variable in state_variables(model)]
    return run_forward(model, values, state, inputs, loss_of, training=False)


def build_on(model: Any, inputs: Any) -> None:
    """Build `model` and all its layers for `inputs` symbolically, so that layers neither count calls nor draw seeds."""
    import keras

    if all(layer.built for layer in model._flatten_layers()):
        return
    symbols = keras.tree.map_structure(lambda tensor: keras.KerasTensor(tensor.shape, tensor.dtype.name), inputs)
    arguments = {"training": False} if model._call_has_training_arg else {}
    keras.src.backend.compute_output_spec(model, symbols, **arguments)


def _metrics_of_layers(model: Any) -> list[Any]:
    """Return the metrics of all layers, including the model, without the metrics that the model was compiled with."""
    import keras

    metrics = [metric for layer in model._flatten_layers() for metric in layer._metrics]
    return [metric for metric in metrics if isinstance(metric, keras.metrics.Metric)]


@contextmanager
def _without_name_scope(model: Any) -> Iterator[None]:
    """Name operations of `model` by its layers alone, without the model's name, as stored records do."""
    vars(model)["_open_name_scope"] = nullcontext
    try:
        yield
    finally:
        del vars(model)["_open_name_scope"]


def _refuse_assignments(model: Any, changed: set[int]) -> None:
    if not changed:
        return
    names = [variable.path for variable in model.trainable_variables if id(variable) in changed]
    if names:
        raise ModelError(
            f"A forward pass may assign to variables that are not trained, but this one assigns to {names[0]!r}, which "
            "is; make that variable with trainable=False, compute with the new value without assigning it, or leave "
            "out the layer, as SpectralNormalization."
        )
    raise ModelError(
        "A forward pass may assign to variables of the model, but this one assigns to one that no layer holds; make it "
        "with add_weight(trainable=False) in the layer that assigns to it, and give random functions a "
        "keras.random.SeedGenerator that the layer holds, as seed=self.seed_generator."
    )

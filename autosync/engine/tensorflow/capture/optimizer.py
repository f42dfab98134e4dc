"""Captures a Keras optimizer as a function on flat arrays of any length, and its rule over all gradients together."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.engine.tensorflow.capture.graph_function import GraphFunction
from autosync.engine.tensorflow.capture.optimizer_twin import NO_TREATMENT, Treatment, functional_twin, unbuilt
from autosync.errors import ModelError
from autosync.spec import said

LOSS_SCALE = "loss_scale"
"""The name of the state by which a replica multiplies its loss before the backward pass; always the last state."""


@dataclass(frozen=True)
class GradientRule:
    """An optimizer's settings that concern all gradients together; None switches a setting off.

    If the common norm of all gradients is larger than `clip_norm`, they are scaled down to it. The loss is multiplied
    by `loss_scale`, and gradients are divided by it. With `growth_steps` the scale is dynamic: a step whose gradients
    are not finite is skipped and halves the scale, and `growth_steps` good steps double it (Micikevicius et al. 2018;
    Keras's `LossScaleOptimizer`).
    """

    clip_norm: float | None = None
    loss_scale: float | None = None
    growth_steps: int | None = None


NO_RULE = GradientRule()


def inner_optimizer(optimizer: Any) -> Any:
    """Return the optimizer that computes the update: the one in a Keras `LossScaleOptimizer`, or `optimizer` itself."""
    return optimizer.inner_optimizer if type(optimizer).__name__ == "LossScaleOptimizer" else optimizer


def optimizer_as_compiled(model: Any, optimizer: Any) -> Any:
    """Return `optimizer` as `model.compile` keeps it: wrapped for loss scaling under the policy mixed_float16."""
    import keras

    if model.dtype_policy.name != "mixed_float16" or inner_optimizer(optimizer) is not optimizer:
        return optimizer
    compiled = getattr(model, "optimizer", None)  # `optimizer` itself if compile was called without loss scaling
    if compiled is not None and inner_optimizer(compiled) is optimizer:
        return compiled
    return keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")


def gradient_rule_of(optimizer: Any) -> GradientRule:
    """Return the rule in a Keras optimizer's settings."""
    inner = inner_optimizer(optimizer)
    clip = getattr(inner, "global_clipnorm", None)
    clip_norm = None if clip is None else float(clip)
    if inner is not optimizer:
        return GradientRule(clip_norm, float(optimizer.initial_scale), int(optimizer.dynamic_growth_steps))
    factor = getattr(inner, "loss_scale_factor", None)
    return GradientRule(clip_norm, None if factor is None else float(factor))


REFUSED_SETTINGS = {
    "clipnorm": "clips a variable's gradient by its norm, which no shard knows",
    "gradient_accumulation_steps": "delays updates, so that steps would differ in their work",
    "use_ema": "keeps averages of the values, which autosync does not read",
}


@dataclass(frozen=True)
class CapturedOptimizer:
    """An optimizer's update of variables of one dtype, as a function on flat arrays."""

    text: str
    """The optimizer's class and settings, for the model's spec."""
    dtype: str
    """The dtype of the variables."""
    update: GraphFunction
    """`update(value, gradient, *slots, *scalars) -> (value, *slots, *scalars)` on flat arrays of any equal length."""
    slot_starts: tuple[float, ...]
    """The initial value of each slot, which has the length of the value and starts filled with this number."""
    scalar_starts: tuple[float, ...]
    """The initial value of each scalar (the iteration, the learning rate)."""
    scalar_dtypes: tuple[str, ...]
    """The dtype of each scalar."""
    rows_suffice: bool
    """Whether a zero gradient changes nothing, so that a sparse gradient needs to update only its touched rows."""
    rules: tuple[GraphFunction, ...] = ()
    """Other updates of the same form, for variables that the optimizer treats differently, for example variables
    excluded from weight decay."""


def capture_optimizer(optimizer: Any, dtype: str, treated: Treatment = NO_TREATMENT) -> CapturedOptimizer:
    """Capture the update of `optimizer`, without its rule over all gradients, for variables of one dtype and treatment.

    Raises `ModelError` for `REFUSED_SETTINGS`, and if the update of an element depends on other elements (clipping by
    norm, LAMB, Adafactor, Muon on matrices), because a shard could then not be updated by itself.
    """
    original, optimizer = optimizer, _without_gradient_rule(optimizer)
    _refuse_settings(optimizer)
    shape = (2, 3)
    twin = functional_twin(optimizer)
    variable = treated.variable(shape, dtype)
    twin.build([variable])
    slots = [state for state in twin.variables if tuple(state.shape) == shape]
    scalars = [state for state in twin.variables if tuple(state.shape) != shape]
    if any(tuple(scalar.shape) for scalar in scalars):
        raise ModelError(
            f"An optimizer must keep state of a variable's shape, or scalars, but {type(optimizer).__name__} keeps "
            f"other state; use an elementwise optimizer such as SGD or Adam."
        )
    flat = trace_update(optimizer, (6,), dtype, [None], treated)
    captured = CapturedOptimizer(
        text=f"{type(original).__name__} {json.dumps(_settings(original), sort_keys=True, default=str)}",
        dtype=dtype,
        update=flat,
        slot_starts=tuple(_fill_value(slot) for slot in slots),
        scalar_starts=tuple(float(scalar.numpy()) for scalar in scalars),
        scalar_dtypes=tuple(str(scalar.dtype) for scalar in scalars),
        rows_suffice=False,
    )
    update = flat.callable()
    shaped_update = trace_update(optimizer, shape, dtype, list(shape), treated)
    if len(shaped_update.inputs) != len(flat.inputs) or not _is_elementwise(captured, update, shaped_update.callable()):
        raise ModelError(
            f"The update of an element by {type(optimizer).__name__} depends on other elements (for example a norm), "
            f"so shards cannot be updated separately; use an elementwise optimizer such as SGD or Adam."
        )
    rows_suffice = _zero_gradient_changes_nothing(captured, update)
    return CapturedOptimizer(**{**captured.__dict__, "rows_suffice": rows_suffice})


def _settings(optimizer: Any) -> dict[str, Any]:
    """Return the settings without the instance's name and without settings that are None."""
    return {key: value for key, value in optimizer.get_config().items() if key != "name" and value is not None}


def _without_gradient_rule(optimizer: Any) -> Any:
    """Return the optimizer without the settings that concern all gradients together."""
    inner = inner_optimizer(optimizer)
    if inner is optimizer and gradient_rule_of(optimizer) == NO_RULE:
        return optimizer
    return unbuilt(inner, global_clipnorm=None, loss_scale_factor=None)


def _refuse_settings(optimizer: Any) -> None:
    if getattr(optimizer, "inner_optimizer", None) is not None:
        raise ModelError(f"{type(optimizer).__name__} wraps another optimizer; give the inner optimizer itself.")
    for name, reason in REFUSED_SETTINGS.items():
        if getattr(optimizer, name, None):
            raise ModelError(
                f"An optimizer must leave {name} unset, but {type(optimizer).__name__} sets it: it {reason}."
            )


def trace_update(
    optimizer: Any, shape: tuple[int, ...], dtype: str, traced_shape: list[int | None], treated: Treatment
) -> GraphFunction:
    """Trace the update on arrays of `traced_shape`, with a twin that is built for `shape`."""
    import keras
    import tensorflow as tf

    twin = functional_twin(optimizer)
    variable = treated.variable(shape, dtype)
    twin.build([variable])
    treated.apply_to(twin)
    slots = [state for state in twin.variables if tuple(state.shape) == shape]
    scalars = [state for state in twin.variables if tuple(state.shape) != shape]
    in_order = [variable, *slots, *scalars]

    def update(value: Any, gradient: Any, *state: Any) -> list[Any]:
        with keras.StatelessScope() as scope:
            # `add_update` takes tensors of unknown length, which the scope's constructor refuses.
            for held, tensor in zip(in_order, (value, *state), strict=True):
                scope.add_update((held, tensor))
            twin.apply([gradient])
        return [tf.convert_to_tensor(scope.get_current_value(held)) for held in in_order]

    array = tf.TensorSpec(traced_shape, dtype)
    scalar_specs = [tf.TensorSpec([], scalar.dtype) for scalar in scalars]
    try:
        return GraphFunction.trace(update, [array, array, *([array] * len(slots)), *scalar_specs])
    except Exception as error:  # any error of an unusual optimizer
        reason = said(error)
        raise ModelError(f"The update rule of {type(optimizer).__name__} cannot be captured: {reason}") from error


def _fill_value(slot: Any) -> float:
    values = np.unique(np.asarray(slot.numpy()))
    if len(values) != 1:
        raise ModelError(f"Optimizer slot {slot.path!r} must start with one value everywhere, but does not.")
    return float(values[0])


def _state(captured: CapturedOptimizer, slots: list[Any], iteration: int) -> list[Any]:
    """Return slots and scalars as they might be at `iteration`; the iteration is the optimizer's only integer."""
    import tensorflow as tf

    pairs = zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
    return slots + [tf.cast(iteration if dtype.startswith("int") else start, dtype) for start, dtype in pairs]


def _trial_values(captured: CapturedOptimizer, seed: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield (value, gradient and slots; scalars) of six elements, for small and large gradients and several steps.

    Later steps are needed because a learning-rate schedule may start at zero, and then any update looks elementwise.
    """
    import tensorflow as tf

    generator = np.random.default_rng(seed)
    for iteration in (0, 7, 1000, 100_000):
        for scale in (1e-3, 1.0, 1e3):
            value, gradient = (tf.constant(generator.normal(size=6) * s, captured.dtype) for s in (1.0, scale))
            slots = [tf.constant(np.abs(generator.normal(size=6)), captured.dtype) for _ in captured.slot_starts]
            yield [value, gradient, *slots], _state(captured, [], iteration)


def _is_elementwise(
    captured: CapturedOptimizer, update: Callable[..., list[Any]], shaped_update: Callable[..., list[Any]]
) -> bool:
    """Whether two separately updated halves, and a matrix, give the same values and slots as the whole flat array."""
    import tensorflow as tf

    tolerance = 1e-2 if captured.dtype in ("float16", "bfloat16") else 1e-5
    arrays_back = 1 + len(captured.slot_starts)
    for arrays, scalars in _trial_values(captured, seed=0):
        whole = update(*arrays, *scalars)[:arrays_back]
        first, last = (update(*(array[part] for array in arrays), *scalars) for part in (slice(0, 3), slice(3, 6)))
        matrix = shaped_update(*(tf.reshape(array, (2, 3)) for array in arrays), *scalars)
        for index, (before, after) in enumerate(zip([arrays[0], *arrays[2:]], whole, strict=True)):
            change = np.abs(np.asarray(after - before, "float64")).max() + 1e-12
            for result in (tf.concat([first[index], last[index]], 0), tf.reshape(matrix[index], [-1])):
                if np.abs(np.asarray(after - result, "float64")).max() > tolerance * change:
                    return False
    return True


def _zero_gradient_changes_nothing(captured: CapturedOptimizer, update: Callable[..., list[Any]]) -> bool:
    import tensorflow as tf

    for (value, _, *slots), scalars in _trial_values(captured, seed=1):
        after = update(value, tf.zeros_like(value), *slots, *scalars)
        if not all(bool(tf.reduce_all(old == new)) for old, new in zip([value, *slots], after, strict=False)):
            return False
    return True

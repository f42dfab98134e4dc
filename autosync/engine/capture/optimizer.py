"""A Keras optimizer as a function on flat arrays of any length, and its rule on all gradients together."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.engine.capture.graph_function import GraphFunction
from autosync.engine.capture.optimizer_twin import NO_TREATMENT, Treatment, functional_twin, unbuilt
from autosync.errors import ModelError
from autosync.spec import said

LOSS_SCALE = "loss_scale"
"""Name of the state by which a replica's loss is multiplied before the backward pass; always the last one."""


@dataclass(frozen=True)
class GradientRule:
    """An optimizer's settings that concern all gradients.

    Gradients are scaled down to a common norm of `clip_norm` if it is larger. The loss is scaled by `loss_scale`, and
    gradients back. With `growth_steps` the scale is dynamic: a step whose gradients are not finite is left out and
    halves it, `growth_steps` good ones double it (Micikevicius et al. 2018; Keras' `LossScaleOptimizer`).
    """

    clip_norm: float | None = None
    loss_scale: float | None = None
    growth_steps: int | None = None


NO_RULE = GradientRule()


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer that makes the update: the one in a Keras `LossScaleOptimizer`, otherwise `optimizer` itself."""
    return optimizer.inner_optimizer if type(optimizer).__name__ == "LossScaleOptimizer" else optimizer


def compiled_optimizer(model: Any, optimizer: Any) -> Any:
    """`optimizer` as `model.compile` keeps it: under the dtype policy mixed_float16 wrapped to scale the loss."""
    import keras

    if model.dtype_policy.name != "mixed_float16" or inner_optimizer(optimizer) is not optimizer:
        return optimizer
    compiled = getattr(model, "optimizer", None)  # the same one if compile was told not to scale the loss
    if compiled is not None and inner_optimizer(compiled) is optimizer:
        return compiled
    return keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")


def gradient_rule_of(optimizer: Any) -> GradientRule:
    """The rule that a Keras optimizer's settings state."""
    inner = inner_optimizer(optimizer)
    clip = getattr(inner, "global_clipnorm", None)
    clip_norm = None if clip is None else float(clip)
    if inner is not optimizer:
        return GradientRule(clip_norm, float(optimizer.initial_scale), int(optimizer.dynamic_growth_steps))
    factor = getattr(inner, "loss_scale_factor", None)
    return GradientRule(clip_norm, None if factor is None else float(factor))


REFUSED_SETTINGS = {
    "clipnorm": "clips a variable's gradient by its norm, which no shard knows",
    "gradient_accumulation_steps": "puts updates off, so that steps would differ in their work",
    "use_ema": "averages the values apart, and nobody would read the averages",
}


@dataclass(frozen=True)
class CapturedOptimizer:
    """`update(value, gradient, *slots, *scalars) -> (value, *slots, *scalars)` on flat arrays of any one length.

    A slot has the value's length and starts filled with `slot_starts[i]`; a scalar (the iteration, the learning
    rate) starts at `scalar_starts[i]` of dtype `scalar_dtypes[i]`. `rows_suffice` tells that a zero gradient changes
    nothing, so that a sparse gradient needs to update its touched rows only. `rules` are other updates of the same
    form, for variables that the optimizer treats otherwise: excluded from weight decay, say.
    """

    text: str
    dtype: str
    update: GraphFunction
    slot_starts: tuple[float, ...]
    scalar_starts: tuple[float, ...]
    scalar_dtypes: tuple[str, ...]
    rows_suffice: bool
    rules: tuple[GraphFunction, ...] = ()


def capture_optimizer(optimizer: Any, dtype: str, treated: Treatment = NO_TREATMENT) -> CapturedOptimizer:
    """Capture `optimizer`'s update of variables of `dtype` that are `treated` alike, without its `gradient_rule_of`.

    Raises `ModelError` when its update of an element depends on other elements (clipping by norm, LAMB, Adafactor,
    Muon on matrices), because a shard could then not be updated by itself, and for `REFUSED_SETTINGS`.
    """
    given, optimizer = optimizer, _without_gradient_rule(optimizer)
    _refuse_settings(optimizer)
    shape = (2, 3)
    twin = functional_twin(optimizer)
    variable = treated.variable(shape, dtype)
    twin.build([variable])
    slots = [each for each in twin.variables if tuple(each.shape) == shape]
    scalars = [each for each in twin.variables if tuple(each.shape) != shape]
    if any(tuple(each.shape) for each in scalars):
        raise ModelError(
            f"An optimizer must keep state of a variable's shape, or scalars, but {type(optimizer).__name__} keeps "
            f"other; use an elementwise optimizer such as SGD or Adam."
        )
    flat = traced_update(optimizer, (6,), dtype, [None], treated)
    captured = CapturedOptimizer(
        text=f"{type(given).__name__} {json.dumps(_settings(given), sort_keys=True, default=str)}",
        dtype=dtype,
        update=flat,
        slot_starts=tuple(_fill_value(each) for each in slots),
        scalar_starts=tuple(float(each.numpy()) for each in scalars),
        scalar_dtypes=tuple(str(each.dtype) for each in scalars),
        rows_suffice=False,
    )
    update = flat.callable()
    shaped_update = traced_update(optimizer, shape, dtype, list(shape), treated)
    if len(shaped_update.inputs) != len(flat.inputs) or not _is_elementwise(captured, update, shaped_update.callable()):
        raise ModelError(
            f"The update of an element by {type(optimizer).__name__} depends on other elements (a norm, say), so "
            f"shards cannot be updated apart; use an elementwise optimizer such as SGD or Adam."
        )
    rows_suffice = _zero_gradient_changes_nothing(captured, update)
    return CapturedOptimizer(**{**captured.__dict__, "rows_suffice": rows_suffice})


def _settings(optimizer: Any) -> dict[str, Any]:
    """The settings that matter, without the instance's name and those left at None."""
    return {key: value for key, value in optimizer.get_config().items() if key != "name" and value is not None}


def _without_gradient_rule(optimizer: Any) -> Any:
    """The optimizer with the settings that concern all gradients together left out."""
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


def traced_update(
    optimizer: Any, shape: tuple[int, ...], dtype: str, traced_shape: list[int | None], treated: Treatment
) -> GraphFunction:
    """The update traced on arrays of `traced_shape`, by a twin that was built on `shape`."""
    import keras
    import tensorflow as tf

    twin = functional_twin(optimizer)
    variable = treated.variable(shape, dtype)
    twin.build([variable])
    treated.tell(twin)
    slots = [each for each in twin.variables if tuple(each.shape) == shape]
    scalars = [each for each in twin.variables if tuple(each.shape) != shape]
    in_order = [variable, *slots, *scalars]

    def update(value: Any, gradient: Any, *state: Any) -> list[Any]:
        with keras.StatelessScope() as scope:
            # `add_update` takes tensors of unknown length, which the scope's constructor refuses.
            for each, tensor in zip(in_order, (value, *state), strict=True):
                scope.add_update((each, tensor))
            twin.apply([gradient])
        return [tf.convert_to_tensor(scope.get_current_value(each)) for each in in_order]

    array = tf.TensorSpec(traced_shape, dtype)
    scalar_specs = [tf.TensorSpec([], each.dtype) for each in scalars]
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
    """Slots and scalars as they might be at `iteration`, which is the optimizer's one whole number."""
    import tensorflow as tf

    pairs = zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
    return slots + [tf.cast(iteration if dtype.startswith("int") else start, dtype) for start, dtype in pairs]


def _trial_values(captured: CapturedOptimizer, seed: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """(value, gradient and slots; scalars) of six elements: gradients small and large, at the first step and later.

    Learning-rate schedules may start at zero, where every rule looks harmless.
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
    """Whether halves updated apart, and a matrix, give the whole flat array's results, in value and slots."""
    import tensorflow as tf

    tolerance = 1e-2 if captured.dtype in ("float16", "bfloat16") else 1e-5
    arrays_back = 1 + len(captured.slot_starts)
    for arrays, scalars in _trial_values(captured, seed=0):
        whole = update(*arrays, *scalars)[:arrays_back]
        first, last = (update(*(each[part] for each in arrays), *scalars) for part in (slice(0, 3), slice(3, 6)))
        matrix = shaped_update(*(tf.reshape(each, (2, 3)) for each in arrays), *scalars)
        for index, (before, after) in enumerate(zip([arrays[0], *arrays[2:]], whole, strict=True)):
            change = np.abs(np.asarray(after - before, "float64")).max() + 1e-12
            for other in (tf.concat([first[index], last[index]], 0), tf.reshape(matrix[index], [-1])):
                if np.abs(np.asarray(after - other, "float64")).max() > tolerance * change:
                    return False
    return True


def _zero_gradient_changes_nothing(captured: CapturedOptimizer, update: Callable[..., list[Any]]) -> bool:
    import tensorflow as tf

    for (value, _, *slots), scalars in _trial_values(captured, seed=1):
        after = update(value, tf.zeros_like(value), *slots, *scalars)
        if not all(bool(tf.reduce_all(old == new)) for old, new in zip([value, *slots], after, strict=False)):
            return False
    return True

"""Captures the update rules of all variables: one rule, or several if the optimizer treats variables differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autosync.engine.tensorflow.capture.optimizer import CapturedOptimizer, capture_optimizer, inner_optimizer
from autosync.engine.tensorflow.capture.optimizer_twin import Treatment
from autosync.errors import ModelError

OVER_ALL = (
    "apply_gradients",
    "apply",
    "scale_loss",
    "finalize_variable_values",
    "_backend_apply_gradients",
    "_backend_update_step",
    "_filter_empty_gradients",
    "_clip_gradients",
    "_apply_weight_decay",
)
"""Methods that Keras calls with all gradients together, whereas autosync updates each shard by itself."""


def capture_optimizers(
    optimizer: Any, variables: Sequence[Any]
) -> tuple[dict[str, CapturedOptimizer], tuple[int, ...]]:
    """Capture an optimizer for every dtype of `variables`; return them, and the number of each variable's update rule.

    Number 0 is the optimizer's `update`, others are among its `rules`. If all variables have number 0, the numbers are
    empty. Raises `ModelError` like `capture_optimizer`, and for a user's own methods that need all gradients.
    """
    _refuse_overrides(optimizer)
    captured: dict[str, CapturedOptimizer] = {}
    number_of: dict[int, int] = {}
    for dtype in sorted({str(variable.dtype) for variable in variables}):
        of_dtype = [variable for variable in variables if str(variable.dtype) == dtype]
        captured[dtype], rules = _capture_dtype(optimizer, dtype, of_dtype)
        number_of.update(zip(map(id, of_dtype), rules, strict=True))
    numbers = tuple(number_of[id(variable)] for variable in variables)
    return captured, numbers if any(numbers) else ()


def _capture_dtype(optimizer: Any, dtype: str, variables: Sequence[Any]) -> tuple[CapturedOptimizer, list[int]]:
    by_name = _asks_for_names(optimizer, dtype)
    treatments = [_treatment(optimizer, variable, by_name) for variable in variables]
    rules: dict[bytes, CapturedOptimizer] = {}
    graph_of: dict[Treatment, bytes] = {}
    for variable, treated in zip(variables, treatments, strict=True):
        if treated not in graph_of:
            rule = _rule(optimizer, dtype, treated, variable.path)
            graph_of[treated] = rule.update.graph
            rules.setdefault(rule.update.graph, rule)
    number = {graph: place for place, graph in enumerate(rules)}
    first, *rest = rules.values()
    if not rest:
        return first, [0] * len(variables)
    several = replace(
        first,
        text=f"{first.text} in {len(rules)} rules",
        rows_suffice=all(rule.rows_suffice for rule in rules.values()),
        rules=tuple(rule.update for rule in rest),
    )
    return several, [number[graph_of[treated]] for treated in treatments]


def _rule(optimizer: Any, dtype: str, treated: Treatment, path: str) -> CapturedOptimizer:
    if treated.constraint is None:
        return capture_optimizer(optimizer, dtype, treated)
    capture_optimizer(
        optimizer, dtype, replace(treated, constraint=None)
    )  # raises errors that are not due to the constraint
    try:
        return capture_optimizer(optimizer, dtype, treated)
    except ModelError as error:
        raise ModelError(
            f"A constraint must hold element by element, as NonNeg does, but {type(treated.constraint).__name__} of "
            f"{path!r} cannot hold shard by shard; remove the constraint."
        ) from error


def _treatment(optimizer: Any, variable: Any, by_name: bool) -> Treatment:
    inner = inner_optimizer(optimizer)
    excludes = getattr(inner, "_exclude_from_weight_decay", None) or getattr(
        inner, "_exclude_from_weight_decay_pattern", None
    )
    tensorflow = variable.value  # Keras passes this variable, whose name is a full path, to updates and exclusions
    return Treatment(
        decays=not (excludes and inner.weight_decay) or bool(inner._use_weight_decay(tensorflow)),
        constraint=getattr(variable, "constraint", None),
        path=variable.path if by_name else None,
        name=tensorflow.name if by_name else None,
    )


def _asks_for_names(optimizer: Any, dtype: str) -> bool:
    """Whether a user's own update reads a variable's name or path, for example for a learning rate by layer."""
    if type(inner_optimizer(optimizer)).__module__.startswith("keras."):
        return False
    asked: list[bool] = []
    try:
        capture_optimizer(optimizer, dtype, Treatment(asked=lambda: asked.append(True)))
    except ModelError:
        if not asked:  # the representative's name may make the update fail
            raise
    return bool(asked)


def _refuse_overrides(optimizer: Any) -> None:
    """Raise `ModelError` if a user's own class, or the object, overrides methods in `OVER_ALL`."""
    for part in (optimizer, inner_optimizer(optimizer)):
        for name in OVER_ALL:
            owner = next((cls for cls in type(part).__mro__ if name in vars(cls)), None)
            if name in vars(part) or (owner is not None and not owner.__module__.startswith("keras.")):
                raise ModelError(
                    f"An optimizer must update each variable by itself, but {type(part).__name__} overrides {name}, "
                    "which takes all gradients together; override update_step(gradient, variable, learning_rate)."
                )

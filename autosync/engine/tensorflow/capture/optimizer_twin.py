"""Twins of an optimizer with the same settings: unbuilt optimizers, and optimizers whose updates work on tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosync.errors import ModelError

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.ndarray, np.generic, re.Pattern)


def unbuilt(optimizer: Any, made_by: Any = None, **changes: Any) -> Any:
    """Make an unbuilt optimizer of the same class, or of the class `made_by`, with the same settings except `changes`.

    Settings of a user's own class that its `get_config` leaves out are copied. Raises `ModelError`.
    """
    import keras

    rate = getattr(optimizer, "_learning_rate", None)
    if callable(rate) and not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        changes["learning_rate"] = rate  # Keras cannot restore a function from its configuration
    try:
        made = (made_by or type(optimizer)).from_config({**optimizer.get_config(), **changes})
    except Exception as error:  # any error of a user's class
        reason = " ".join(str(error).split())
        raise ModelError(
            f"autosync copies an optimizer from its settings, but from_config(get_config()) of "
            f"{type(optimizer).__name__} fails: {reason}; let get_config return the arguments of __init__."
        ) from error
    of_keras = next((cls for cls in type(optimizer).__mro__ if cls.__module__.startswith("keras.")), None)
    if of_keras is not None and of_keras is not type(optimizer):
        known = _attributes_of(of_keras)
        for name, value in vars(optimizer).items():
            if name not in known and name not in changes and _is_plain(value):
                setattr(made, name, value)
    return made


def _attributes_of(of_keras: Any) -> set[str]:
    """Return the attributes that Keras itself gives to a built optimizer of the class."""
    import keras

    plain = of_keras(learning_rate=0.1)
    plain.build([keras.Variable(np.zeros(1), dtype="float32")])
    return set(vars(plain))


@dataclass(frozen=True)
class Treatment:
    """The properties of a variable on which an update may depend."""

    decays: bool = True
    """False if the variable is excluded from weight decay."""
    constraint: Any = None
    """The variable's Keras constraint, or None."""
    path: str | None = None
    """The variable's path; None unless the optimizer reads it."""
    name: str | None = None
    """The variable's name; None unless the optimizer reads it."""
    asked: Callable[[], None] | None = field(default=None, compare=False)
    """Called when the optimizer reads the path or the name; None for no call."""

    def variable(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Make a Keras variable of zeros that represents all variables with this treatment."""
        import keras

        treatment = self

        class RepresentativeVariable(keras.Variable):  # type: ignore[misc]
            listens = False

            @property
            def path(self) -> str:
                return self._report(treatment.path)

            @property
            def name(self) -> str:
                return self._report(treatment.name)

            def _report(self, text: str | None) -> str:
                if self.listens and treatment.asked:
                    treatment.asked()
                return text or "variable"

        return RepresentativeVariable(np.zeros(shape), dtype=dtype, name="variable")

    def apply_to(self, twin: Any) -> None:
        """Let the built optimizer `twin` treat its variable so."""
        for variable in twin._trainable_variables:
            variable.constraint = self.constraint
            variable.listens = True
        if not self.decays:
            vars(twin)["_use_weight_decay"] = lambda _: False


NO_TREATMENT = Treatment()


def _is_plain(value: Any) -> bool:
    """Whether a value is a setting and not a variable: a number, a text, a function, or a structure of these."""
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN) or callable(value)


def functional_twin(optimizer: Any) -> Any:
    """Make an unbuilt optimizer with the same settings whose updates work on tensors.

    On TensorFlow, Keras writes updates through `tf.distribute` and refuses `stateless_apply`. Its back-end-neutral
    methods work without `tf.distribute`. The twin's class puts these methods before TensorFlow's, but after the
    optimizer's own methods, because some optimizers, such as Nadam, extend them.
    """
    lineage = {cls.__name__: cls for cls in type(optimizer).__mro__}
    root, specific, neutral = (lineage.get(name) for name in ("Optimizer", "TFOptimizer", "BaseOptimizer"))
    if root is None or specific is None or neutral is None:
        raise ModelError(f"An optimizer must be a Keras 3 optimizer, not {type(optimizer).__name__}.")
    methods = {name: neutral.__dict__[name] for name in specific.__dict__ if name in neutral.__dict__}
    for name in ("__init__", "__module__", "__doc__", "add_variable_from_reference"):
        methods.pop(name, None)
    without_tensorflow = type(root.__name__, (root,), methods)
    twin_class: Any = type(type(optimizer).__name__, (type(optimizer), without_tensorflow), {})
    twin = unbuilt(optimizer, twin_class)
    twin.name = twin.name.lstrip("_") or "optimizer"  # TensorFlow refuses root scopes that begin with "_"
    return twin

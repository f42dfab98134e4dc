"""A model's variables: unique names of the trained ones, and the variables of the untrained state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any


def names_of(variables: Sequence[Any]) -> list[str]:
    """Return unique names of `variables`: their paths, and `path#2` for the second variable with the same path.

    Two sub-models whose layers have equal names give equal paths. The numbers follow the order of `variables`.
    """
    names: list[str] = []
    taken = {variable.path for variable in variables}
    seen: set[str] = set()
    for variable in variables:
        name = variable.path
        if name in seen:
            numbered = (f"{variable.path}#{number}" for number in count(2))
            name = next(name for name in numbered if name not in seen | taken)
        seen.add(name)
        names.append(name)
    return names


def state_variables(model: Any) -> list[Any]:
    """Return the untrained variables that a step reads and may change: Keras's own list, then `hidden_variables`."""
    return [*model.non_trainable_variables, *hidden_variables(model)]


def hidden_variables(model: Any) -> list[Any]:
    """Return Keras variables that a layer holds but does not report, such as the state of a recurrent layer."""
    import keras

    known = {id(variable) for variable in (*model.variables, *model.metrics_variables)}
    variables = []
    for layer in model._flatten_layers():
        for attribute in vars(layer).values():
            for leaf in _leaves(attribute):
                if isinstance(leaf, keras.Variable) and id(leaf) not in known:
                    known.add(id(leaf))
                    variables.append(leaf)
    return variables


def _leaves(attribute: Any) -> Iterator[Any]:
    if isinstance(attribute, dict):
        attribute = tuple(attribute.values())
    if isinstance(attribute, list | tuple):
        for item in attribute:
            yield from _leaves(item)
    else:
        yield attribute

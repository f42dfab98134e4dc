"""Turns the data arguments of `Trainer.fit` into batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autosync.engine.tensorflow.training.keras_data import (
    ClassWeighted,
    DataArguments,
    from_keras,
    is_py_dataset,
    split,
)
from autosync.errors import TrainingError
from autosync.train.data import RayBatches, Sharded, Synthetic


def batches_of(x: Any, arguments: DataArguments) -> tuple[Any, Any]:
    """Return (data, held-out data): data yield batches once for each pass; held-out data are a split for validation, or
    None.

    Raises `TrainingError` for arguments that exclude each other.
    """
    if is_arrays(x) or arguments.y is not None:
        return _of_arrays(x, arguments)
    kind = type(x).__name__
    _refuse_arrays_only(kind, arguments)
    if isinstance(x, Sharded | RayBatches | Synthetic):
        if arguments.class_weight is not None:
            raise TrainingError(
                f"class_weight is not for {kind}, whose batches are made elsewhere; "
                "let them hold weights as a third item, (inputs, targets, weights)."
            )
        return x, None
    if is_py_dataset(x):
        return from_keras(x, arguments), None
    if arguments.class_weight is not None and isinstance(x, Iterable):
        return ClassWeighted(x, arguments.class_weight), None
    return x, None


def is_arrays(x: Any) -> bool:
    """True for an array, a tensor or a dictionary of them, whose targets are a separate argument; never for a list of
    batches.
    """
    if isinstance(x, Mapping):
        return bool(x) and all(is_arrays(value) for value in x.values())
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _of_arrays(x: Any, arguments: DataArguments) -> tuple[Any, Any]:
    if arguments.y is None:
        raise TrainingError("Arrays need targets, as in fit(x, y); or give batches (inputs, targets).")
    if not is_arrays(x) and not isinstance(x, list | tuple):
        raise TrainingError(
            f"y is for arrays, but the data are of {type(x).__name__}; let their batches hold the targets."
        )
    rest = None
    if arguments.validation_split:
        x, arguments, rest = split(x, arguments)
    return from_keras(x, arguments), rest


def _refuse_arrays_only(kind: str, arguments: DataArguments) -> None:
    """Raise `TrainingError` for arguments that apply to arrays only."""
    only = {
        "sample_weight": arguments.sample_weight is not None,
        "batch_size": arguments.batch_size is not None,
        "validation_split": bool(arguments.validation_split),
    }
    remedies = {
        "sample_weight": "let batches hold weights as a third item, (inputs, targets, weights)",
        "batch_size": "batch the data themselves",
        "validation_split": "give validation_data",
    }
    for name, is_given in only.items():
        if is_given:
            raise TrainingError(f"{name} is for arrays, but the data are of {kind}; {remedies[name]}.")

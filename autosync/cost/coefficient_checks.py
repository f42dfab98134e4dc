"""What all frozen dataclasses of coefficients share: every field is a number of at least 0, some are shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from autosync.errors import SpecError
from autosync.spec.fields import known_fields, required

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check_coefficients", "numbers_of"]


def check_coefficients(coefficients: DataclassInstance, shares: Sequence[str]) -> None:
    """Raise `SpecError` when a coefficient is negative or not finite, or when one of `shares` is over 1."""
    for name, value in asdict(coefficients).items():
        if not (math.isfinite(value) and value >= 0):
            raise SpecError(f"Coefficient {name} must be a number of at least 0, not {value!r}.")
        if name in shares and value > 1:
            raise SpecError(f"Coefficient {name} is a share between 0 and 1, not {value!r}.")


def numbers_of(kind: type[DataclassInstance], document: Mapping[str, Any], what: str) -> dict[str, float]:
    """The fields of `kind` in a JSON `document`, which has just them. Raises `SpecError`."""
    names = tuple(each.name for each in fields(kind))
    known_fields(document, names, what)
    return {name: required(document, name, float, what) for name in names}

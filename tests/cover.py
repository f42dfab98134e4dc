"""How much of what could be crossed is tested: `make test` meets every value, `make test-all` every combination."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

__all__ = ["crossed", "thorough"]


def thorough(value: Any) -> Any:
    """A value of a parameter that only `make test-all` meets."""
    return pytest.param(value, marks=pytest.mark.thorough)


def crossed(*axes: Iterable[str]) -> list[Any]:
    """Combinations of all values for `pytest.mark.parametrize`, all but a few of them marked `thorough`.

    Those few go through all axes at once, each from its start again when it is over, until the longest is.
    """
    listed = [list(axis) for axis in axes]
    few = {tuple(axis[turn % len(axis)] for axis in listed) for turn in range(max(map(len, listed)))}
    return [
        pytest.param(*each, id="-".join(each), marks=() if each in few else pytest.mark.thorough)
        for each in product(*listed)
    ]

"""Coverage of combinations: `make test` covers every value, `make test-all` every combination."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

__all__ = ["crossed", "thorough"]


def thorough(value: Any) -> Any:
    """A value of a parameter that only `make test-all` covers."""
    return pytest.param(value, marks=pytest.mark.thorough)


def crossed(*axes: Iterable[str]) -> list[Any]:
    """Return combinations of all values for `pytest.mark.parametrize`, all but a few marked `thorough`.

    Those few advance along all axes at once; a shorter axis starts again at its end, until the longest axis ends.
    """
    listed = [list(axis) for axis in axes]
    few = {tuple(axis[turn % len(axis)] for axis in listed) for turn in range(max(map(len, listed)))}
    return [
        pytest.param(*combination, id="-".join(combination), marks=() if combination in few else pytest.mark.thorough)
        for combination in product(*listed)
    ]

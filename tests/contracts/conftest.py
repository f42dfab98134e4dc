"""Fixtures that record results for the tables at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.contracts.tables import PARITY, TRAFFIC


@pytest.fixture
def tally(request: Any) -> Callable[[str, float], None]:
    """Record the relative error of a passed case, by optimizer or kind of case."""
    return lambda kind, error: request.node.user_properties.append((PARITY, [kind, error, request.node.name]))


@pytest.fixture
def count_traffic(request: Any) -> Callable[[str, Mapping[str, float], Mapping[str, float]], None]:
    """Record the measured and predicted bytes a step of a way to synchronize, by link."""

    def note(way: str, measured: Mapping[str, float], predicted: Mapping[str, float]) -> None:
        pairs = (f"{measured[link] / 1e3:6.0f}/{size / 1e3:<6.0f}" for link, size in sorted(predicted.items()))
        request.node.user_properties.append((TRAFFIC, [way, "  ".join(pairs)]))

    return note

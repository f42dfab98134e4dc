"""The tally of the parity contract: how many cases there were, and how far the worst one was off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["Tally"]

Tally = dict[str, list[tuple[float, str]]]
PARITY: pytest.StashKey[Tally] = pytest.StashKey()


@pytest.fixture
def tally(request: Any) -> Callable[[str, float], None]:
    """Note an optimizer and the relative error of one case that held."""
    found: Tally = request.config.stash.setdefault(PARITY, defaultdict(list))
    case = request.node.name

    def note(optimizer: str, error: float) -> None:
        found[optimizer].append((error, case))

    return note


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    found = config.stash.get(PARITY, {})
    if not found:
        return
    terminalreporter.section(f"parity with one process: {sum(map(len, found.values()))} cases")
    for optimizer, cases in found.items():
        error, case = max(cases)
        terminalreporter.write_line(f"{optimizer:9} {len(cases):3} cases, worst relative error {error:.1e} ({case})")

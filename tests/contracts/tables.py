"""Tables at the end of a run: how far parity and traffic were off in the worst case.

What a test notes goes with its report, so that it reaches the process that prints, whichever ran the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

__all__ = ["PARITY", "TRAFFIC", "pytest_terminal_summary"]

PARITY, TRAFFIC = "parity", "traffic"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    cases: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for kind, error, case in _noted(terminalreporter, PARITY):
        cases[kind].append((error, case))
    if cases:
        terminalreporter.section(f"parity with one process: {sum(map(len, cases.values()))} cases")
    for kind, found in cases.items():
        error, case = max(found)
        terminalreporter.write_line(f"{kind:18} {len(found):3} cases, worst relative error {error:.1e} ({case})")
    traffic = list(_noted(terminalreporter, TRAFFIC))
    if traffic:
        terminalreporter.section("kB a step, measured/predicted: down and up of node0, node1, node2, or between racks")
    for way, line in traffic:
        terminalreporter.write_line(f"{way:30} {line}")


def _noted(terminalreporter: Any, name: str) -> Iterator[list[Any]]:
    for report in terminalreporter.stats.get("passed", []):
        yield from (value for key, value in report.user_properties if key == name and report.when == "call")

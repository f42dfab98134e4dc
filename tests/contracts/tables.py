"""Prints tables at the end of a run: the worst errors of parity and traffic, and the contracts that engines keep.

A test's figures travel with its report, so that they reach the printing process from any process that ran the test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from autosync.engine.core.registry import ENGINES

__all__ = ["ENGINES_TABLE", "PARITY", "TRAFFIC", "pytest_terminal_summary"]

PARITY, TRAFFIC, ENGINES_TABLE = "parity", "traffic", "engines"
ENGINE_CONTRACTS = "tests/engine/contracts/"
OUTCOMES = {"passed": "passed", "xfailed": "expected to fail", "failed": "failed"}


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
    _print_contracts(terminalreporter)


def _print_contracts(terminalreporter: Any) -> None:
    """Print a line for each contract of engines: by engine, the number of cases and their outcome."""
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, outcome in OUTCOMES.items():
        for report in terminalreporter.stats.get(kind, []):
            test, _, case = report.nodeid.partition("::")[2].removesuffix("]").partition("[")
            if report.nodeid.startswith(ENGINE_CONTRACTS) and report.when == "call":
                engine = next((engine for engine in ENGINES if engine in case.split("-")), "all")
                line, cell = dict(report.user_properties).get(ENGINES_TABLE, (test, outcome))
                lines[line.removeprefix("test_").replace("_", " ")][f"{engine} {cell}"] += 1
    if lines:
        terminalreporter.section("contracts of engines")
    for line, cells in sorted(lines.items()):
        words = ", ".join(f"{cell} ({count})" for cell, count in sorted(cells.items()))
        terminalreporter.write_line(f"{line:80} {words}")


def _noted(terminalreporter: Any, name: str) -> Iterator[list[Any]]:
    for report in terminalreporter.stats.get("passed", []):
        yield from (value for key, value in report.user_properties if key == name and report.when == "call")

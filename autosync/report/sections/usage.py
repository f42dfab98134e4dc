"""How to use what was found."""

from __future__ import annotations

from autosync.report.blocks import Block, Commands, Facts, Section
from autosync.report.findings import Findings
from autosync.report.sections.headline import commands_of

__all__ = ["usage_section"]

FILES = {
    "strategy.json": "the strategy, one line a variable",
    "result.json": "medians, intervals and the verdict for programs; its schema: python -m autosync.runs schema",
    "trials.csv": "a row for each trial",
    "probe.json": "every transfer by which links were measured",
    "run.json": "what was asked, and the cluster",
}


def usage_section(findings: Findings) -> Section:
    run = findings.run
    files = [(name, about) for name, about in FILES.items() if (run.directory / name).exists()]
    if run.data is not None:
        files.append((str(run.data), f"every trial as a record (Parquet); this run's are called {run.name}"))
    blocks: list[Block] = [Commands(commands_of(findings)), Facts(files)]
    return Section("usage", "Use it", "Use", blocks)

"""Trials that did not come to their end, by outcome and reason."""

from __future__ import annotations

import re

from autosync.report.blocks import Block, Column, Note, Paragraph, Row, Section, Table
from autosync.report.findings import Findings
from autosync.spec import RuntimeRecord
from autosync.words.quantities import counted

__all__ = ["failures_section"]

NUMBER = re.compile(r"\d+(\.\d+)?")
DIGEST = re.compile(r"\b[0-9a-f]{8,16}\b")
NAMED = 4
LONGEST_REASON = 400

OUTCOMES = {"failed": 0, "timed_out": 1, "lost": 2, "stopped": 3}
"""Outcomes by their rank, the graver first."""


def failures_section(findings: Findings) -> Section:
    ended = [each for each in findings.run.here if each.outcome != "ok"]
    blocks: list[Block] = []
    elsewhere = len(findings.run.records) - len(findings.run.here)
    if elsewhere:
        blocks.append(
            Paragraph(f"{elsewhere} records of this run are of another cluster, and are left out everywhere.")
        )
    if not ended:
        text = "None: every trial was timed to its end." if findings.points else "No trial has ended yet."
        return _section([*blocks, Note(text)])
    groups: dict[tuple[str, str], list[RuntimeRecord]] = {}
    for record in ended:
        groups.setdefault((record.outcome, _alike(record.reason)), []).append(record)
    ordered = sorted(groups.items(), key=lambda item: (OUTCOMES[item[0][0]], -len(item[1])))
    blocks.append(
        Table(
            (Column("outcome"), Column("trials", numeric=True), Column("reason"), Column("strategies")),
            [
                Row((outcome.replace("_", " "), str(len(records)), _reason(records), _names(records)))
                for (outcome, _), records in ordered
            ],
            f"{counted(len(ended), 'record')} that {'are' if len(ended) > 1 else 'is'} not ok, of "
            f"{len(findings.run.here)}; reasons that differ by numbers only share a line and show the first. A trial "
            f"that was lost with a worker or node ran again; one that was stopped was clearly slower than the best.",
        )
    )
    return _section(blocks)


def _section(blocks: list[Block]) -> Section:
    return Section("failures", "What failed", "Failures", blocks)


def _alike(reason: str) -> str:
    return NUMBER.sub("#", DIGEST.sub("#", reason))


def _reason(records: list[RuntimeRecord]) -> str:
    text = records[0].reason
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "\N{HORIZONTAL ELLIPSIS}"


def _names(records: list[RuntimeRecord]) -> str:
    names = list(dict.fromkeys(f"{each.label} {each.strategy.digest[:8]}" for each in records))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more

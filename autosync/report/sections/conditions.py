"""The sections on conditions (noise, hosts, versions, and times of measurement) and on failed trials with their
reasons.
"""

import math
import re
from collections.abc import Iterable
from datetime import datetime, timezone

from autosync.report.blocks import Block, Facts, Note, Paragraph, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import percent, percent_interval
from autosync.spec import RuntimeRecord
from autosync.words.quantities import count_of, few_of


def conditions_blocks(findings: Findings) -> list[Block]:
    records = findings.run.here
    if not records:
        return [Note("There are no records of this run here, so hosts, versions and noise are unknown.")]
    pairs = [("Within trials", _noise_within_trials(findings)), ("Between trials", _noise_between_trials(findings))]
    pairs += [("Measured", _period(records)), ("Host", _join(record.host for record in records if record.host))]
    loads = [record.load_average for record in records if record.load_average is not None]
    if loads:
        pairs.append(("Load before trials", f"{min(loads):.1f} to {max(loads):.1f}, averages over a minute"))
    versions = {f"{name} {version}" for record in records for name, version in record.versions.items()}
    return [Facts([*pairs, ("Versions", _join(sorted(versions)))])]


def _noise_within_trials(findings: Findings) -> str:
    noise = findings.noise
    if noise.within is None:
        return "no trial has several steps"
    return (
        f"steps of one trial differ by {_relative(noise.within)} (standard deviation; the median of "
        f"{count_of(noise.trials, 'trial')})"
    )


def _noise_between_trials(findings: Findings) -> str:
    noise = findings.noise
    if noise.between is None or noise.interval is None:
        return "unknown, because no strategy was timed several times"
    low, high = (math.expm1(end) for end in noise.interval)
    return (
        f"medians of timings of one strategy, in the search and in the finals, differ by {_relative(noise.between)} "
        f"(standard deviation; 95 % interval {percent_interval(low, high, 1)}; {noise.timings} timings of "
        f"{noise.strategies} strategies)"
    )


def _relative(deviation: float) -> str:
    return percent(math.expm1(deviation), 1)


def _period(records: Iterable[RuntimeRecord]) -> str:
    began = sorted(record.started_at for record in records)
    first, last = (
        datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M") for seconds in (began[0], began[-1])
    )
    return f"{first} to {last} UTC, {count_of(len(began), 'record')}"


def _join(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "not written down"


NUMBER = re.compile(r"\d+(\.\d+)?")
DIGEST = re.compile(r"\b[0-9a-f]{8,16}\b")
LONGEST_REASON = 400

OUTCOMES = {"failed": 0, "timed_out": 1, "lost": 2, "stopped": 3}
"""Outcomes by their rank, the graver first."""


def failures_blocks(findings: Findings) -> list[Block]:
    ended = [record for record in findings.run.here if record.outcome != "ok"]
    blocks: list[Block] = []
    elsewhere = len(findings.run.records) - len(findings.run.here)
    if elsewhere:
        blocks.append(
            Paragraph(f"{elsewhere} records of this run are from another cluster, and are left out everywhere.")
        )
    if not ended:
        text = "None: every trial was timed to its end." if findings.points else "No trial has ended yet."
        return [*blocks, Note(text)]
    groups: dict[tuple[str, str], list[RuntimeRecord]] = {}
    for record in ended:
        groups.setdefault((record.outcome, _alike(record.reason)), []).append(record)
    ordered = sorted(groups.items(), key=lambda item: (OUTCOMES[item[0][0]], -len(item[1])))
    table = Table(
        (*texts("outcome"), *numbers("trials"), *texts("reason", "strategies")),
        [
            TableRow((outcome.replace("_", " "), str(len(records)), _reason(records), _names(records)))
            for (outcome, _), records in ordered
        ],
        f"{count_of(len(ended), 'record')} that {'are' if len(ended) > 1 else 'is'} not ok, of "
        f"{len(findings.run.here)}; reasons that differ only in numbers share a line, which shows the first. A trial "
        f"that was lost with a worker or node ran again; one that was stopped was clearly slower than the best.",
    )
    return [*blocks, table]


def _alike(reason: str) -> str:
    return NUMBER.sub("#", DIGEST.sub("#", reason))


def _reason(records: list[RuntimeRecord]) -> str:
    text = records[0].reason
    return text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "\N{HORIZONTAL ELLIPSIS}"


def _names(records: list[RuntimeRecord]) -> str:
    return few_of(list(dict.fromkeys(f"{record.label} {record.strategy.digest[:8]}" for record in records)), 4)

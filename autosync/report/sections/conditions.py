"""The conditions: noise within and between trials, hosts, versions, and when all this was measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone

from autosync.report.blocks import Block, Facts, Note, Section
from autosync.report.findings import Findings
from autosync.report.numbers import percent, percent_interval
from autosync.spec import RuntimeRecord
from autosync.words.quantities import counted

__all__ = ["conditions_section"]


def conditions_section(findings: Findings) -> Section:
    records = findings.run.here
    blocks: list[Block] = []
    if not records:
        blocks.append(Note("There are no records of this run here, so nothing is known of hosts, versions and noise."))
    else:
        pairs = [("Within trials", _within(findings)), ("Between trials", _between(findings))]
        pairs += [("Measured", _when(records)), ("Host", _listed(each.host for each in records if each.host))]
        loads = [each.load_average for each in records if each.load_average is not None]
        if loads:
            pairs.append(("Load before trials", f"{min(loads):.1f} to {max(loads):.1f}, averages over a minute"))
        versions = Counter(f"{name} {version}" for each in records for name, version in each.versions.items())
        pairs.append(("Versions", _listed(sorted(versions))))
        blocks.append(Facts(pairs))
    return Section("conditions", "Noise, host and versions", "Conditions", blocks)


def _within(findings: Findings) -> str:
    noise = findings.noise
    if noise.within is None:
        return "no trial has several steps"
    return (
        f"steps of one trial differ by {_relative(noise.within)} (standard deviation; the median of "
        f"{counted(noise.trials, 'trial')})"
    )


def _between(findings: Findings) -> str:
    noise = findings.noise
    if noise.between is None or noise.interval is None:
        return "no strategy was timed several times, so it is not known"
    low, high = (math.expm1(each) for each in noise.interval)
    return (
        f"medians of timings of one strategy, in the search and in the finals, differ by {_relative(noise.between)} "
        f"(standard deviation; 95 % interval {percent_interval(low, high, 1)}; {noise.timings} timings of "
        f"{noise.strategies} strategies)"
    )


def _relative(deviation: float) -> str:
    return percent(math.expm1(deviation), 1)


def _when(records: Iterable[RuntimeRecord]) -> str:
    began = sorted(each.started_at for each in records)
    first, last = (
        datetime.fromtimestamp(each, timezone.utc).strftime("%Y-%m-%d %H:%M") for each in (began[0], began[-1])
    )
    return f"{first} to {last} UTC, {counted(len(began), 'record')}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "not written down"

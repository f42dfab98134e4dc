"""What each of the winner's decisions is worth: one reverted, all else kept, and measured again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from autosync.report.blocks import Block, Column, Note, Picture, Row, Section, Table
from autosync.report.findings import Findings
from autosync.report.numbers import ratio, ratio_interval
from autosync.report.pictures.worths import draw_worths
from autosync.words.quantities import megabytes

__all__ = ["worths_section"]


def worths_section(findings: Findings) -> Section:
    run = findings.run
    found = (run.result or {}).get("counterfactuals")
    timed = [each for each in found or () if None not in (each["worth"], each["worth_interval"])]
    blocks: list[Block] = []
    if found is None:
        blocks.append(Note("Not measured: add --counterfactuals 3 to autosync.tune for the three that matter most."))
    elif not found:
        blocks.append(Note("The winner is a baseline itself, so no decision of it can be reverted to a baseline's."))
    else:
        if timed:
            rounds = max(each["rounds"] for each in timed)
            blocks.append(
                Picture(
                    "worths",
                    "How many times as long a step takes with one decision reverted",
                    f"The winner with one decision reverted to the nearest baseline's, timed in turns with the winner: "
                    f"right of the dashed line, the decision pays. Bars are 95 % intervals, paired by round; filled "
                    f"marks are those beyond the noise. Decisions depend on each other, so worths do not multiply to "
                    f"the whole speed-up. n = {len(timed)} decisions, up to {rounds} rounds each.",
                    partial(draw_worths, timed),
                )
            )
        blocks.append(_table(found))
    return Section("worths", "What each decision is worth", "Decisions", blocks)


def _table(found: list[Mapping[str, Any]]) -> Table:
    titles = ("gradients", "step takes", "95 % interval", "foretold", "rounds")
    rows = [
        Row(
            (
                each["label"] + (f" ({each['note']})" if each["note"] else ""),
                megabytes(each["gradient_bytes"]),
                ratio(each["worth"]),
                ratio_interval(each["worth_interval"]),
                ratio(each["predicted_worth"]),
                str(each["rounds"]),
            ),
            strong=bool(each["worth_interval"]) and (each["worth_interval"][0] > 1 or each["worth_interval"][1] < 1),
        )
        for each in found
    ]
    return Table(
        (Column("the winner, but"), *(Column(title, numeric=True) for title in titles)),
        rows,
        "Foretold is what the closed form expected before anything was fitted.",
    )

"""How the winner differs from the baseline that is nearest to it."""

from __future__ import annotations

from autosync.baselines.nearest import Difference
from autosync.report.blocks import Block, Column, Note, Paragraph, Row, Section, Table
from autosync.report.findings import Findings
from autosync.report.numbers import percent
from autosync.spec import ModelSpec
from autosync.words.quantities import megabytes

__all__ = ["difference_section"]

NAMED = 3


def difference_section(findings: Findings) -> Section:
    nearest, model = findings.nearest, findings.run.model
    blocks: list[Block] = []
    if nearest is None or model is None:
        blocks.append(Note("There is no winner yet whose records are here, so there is nothing to compare."))
    elif not nearest.differences:
        blocks.append(Note(f"None: it is {nearest.label}, decision by decision."))
    else:
        bytes_apart = sum(_bytes(each, model) for each in nearest.differences)
        blocks += [
            Paragraph(
                f"The nearest hand-written strategy is {nearest.label}: {nearest.variables} of "
                f"{len(model.variables)} variables are decided otherwise, with "
                f"{percent(bytes_apart / model.gradient_bytes)} of the gradients' bytes."
            ),
            Table(
                (Column("variables"), Column("gradients", numeric=True), Column("winner"), Column(nearest.label)),
                [_row(each, model) for each in sorted(nearest.differences, key=lambda each: -_bytes(each, model))],
                "Variables that are decided alike, here and there, share a line; most bytes first.",
            ),
        ]
    return Section("difference", "Against the nearest baseline", "Difference", blocks)


def _row(difference: Difference, model: ModelSpec) -> Row:
    names = sorted(difference.variables, key=lambda name: -model.by_name[name].gradient_bytes)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    size = megabytes(_bytes(difference, model))
    return Row((", ".join(names[:NAMED]) + more, size, difference.here, difference.there))


def _bytes(difference: Difference, model: ModelSpec) -> float:
    return sum(model.by_name[name].gradient_bytes for name in difference.variables)

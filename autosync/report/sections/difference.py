"""How the winner differs from the baseline nearest to it, and what its decisions are worth."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from autosync.baselines.nearest import Difference
from autosync.report.blocks import Block, Note, Paragraph, Picture, Row, Table, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import percent, ratio, ratio_interval
from autosync.report.pictures.worths import draw_worths
from autosync.spec import ModelSpec
from autosync.words.quantities import few_of, megabytes


def difference_blocks(findings: Findings) -> list[Block]:
    nearest, model = findings.nearest, findings.run.model
    if nearest is None or model is None:
        return [Note("There is no winner yet whose records are here, so there is nothing to compare.")]
    if not nearest.differences:
        return [Note(f"None: it is {nearest.label}, decision by decision.")]
    bytes_apart = sum(_bytes(each, model) for each in nearest.differences)
    return [
        Paragraph(
            f"The nearest baseline is {nearest.label}: {nearest.variables} of "
            f"{len(model.variables)} variables are decided otherwise, with "
            f"{percent(bytes_apart / model.gradient_bytes)} of the gradients' bytes."
        ),
        Table(
            (*texts("variables"), *numbers("gradients"), *texts("winner", nearest.label)),
            [_row(each, model) for each in sorted(nearest.differences, key=lambda each: -_bytes(each, model))],
            "Variables that are decided alike, here and there, share a line; most bytes first.",
        ),
    ]


def _row(difference: Difference, model: ModelSpec) -> Row:
    names = sorted(difference.variables, key=lambda name: -model.by_name[name].gradient_bytes)
    return Row((few_of(names), megabytes(_bytes(difference, model)), difference.here, difference.there))


def _bytes(difference: Difference, model: ModelSpec) -> float:
    return sum(model.by_name[name].gradient_bytes for name in difference.variables)


def worths_blocks(findings: Findings) -> list[Block]:
    found = (findings.run.result or {}).get("counterfactuals")
    if found is None:
        return [Note("Not measured: add --counterfactuals 3 to autosync.tune for the three that matter most.")]
    if not found:
        return [Note("The winner is a baseline itself, so no decision of it can be reverted to a baseline's.")]
    timed = [each for each in found if None not in (each["worth"], each["worth_interval"])]
    if not timed:
        return [_table(found)]
    rounds = max(each["rounds"] for each in timed)
    picture = Picture(
        "worths",
        "How many times as long a step takes with one decision reverted",
        f"The winner with one decision reverted to the nearest baseline's, timed in turns with the winner: "
        f"right of the dashed line, the decision pays. Bars are 95 % intervals, paired by round; filled "
        f"marks are those beyond the noise. Decisions depend on each other, so worths do not multiply to "
        f"the whole speed-up. n = {len(timed)} decisions, up to {rounds} rounds each.",
        partial(draw_worths, timed),
    )
    return [picture, _table(found)]


def _table(found: list[Mapping[str, Any]]) -> Table:
    titles = ("gradients", "step takes", "95 % interval", "predicted", "rounds")
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
        (*texts("the winner, but"), *numbers(*titles)),
        rows,
        "Predicted is what the closed form expected before anything was fitted.",
    )

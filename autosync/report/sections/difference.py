"""The sections on the differences between the winner and its nearest baseline, and on the worths of its decisions."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from autosync.baselines.nearest import Difference, Nearest
from autosync.report.blocks import Block, Note, Paragraph, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import percent, ratio, ratio_interval
from autosync.report.pictures.worths import draw_worths
from autosync.spec import ModelSpec
from autosync.words.quantities import few_of, megabytes


def difference_blocks(findings: Findings) -> list[Block]:
    nearest, model = findings.nearest, findings.run.model
    if nearest is None or model is None:
        return [Note("There is no winner with records here yet, so there is nothing to compare.")]
    if nearest.is_same:
        return [Note(f"There is none: the winner is {nearest.label}.")]
    bytes_apart = sum(_bytes(difference, model) for difference in nearest.differences)
    return [
        Paragraph(
            f"The nearest baseline is {nearest.label}: {nearest.variables} of "
            f"{len(model.variables)} variables have other decisions, with "
            f"{percent(bytes_apart / model.gradient_bytes)} of the gradients' bytes."
        ),
        *_step_end(nearest),
        Table(
            (*texts("variables"), *numbers("gradients"), *texts("winner", nearest.label)),
            [
                _row(difference, model)
                for difference in sorted(nearest.differences, key=lambda difference: -_bytes(difference, model))
            ],
            "Variables with equal decisions, in both strategies, share a line; most bytes first.",
        ),
    ]


def _step_end(nearest: Nearest) -> Iterator[Paragraph]:
    if nearest.step_ends:
        here, there = nearest.step_ends
        yield Paragraph(f"The winner's steps {here}; those of {nearest.label} {there}.")


def _row(difference: Difference, model: ModelSpec) -> TableRow:
    names = sorted(difference.variables, key=lambda name: -model.by_name[name].gradient_bytes)
    return TableRow((few_of(names), megabytes(_bytes(difference, model)), difference.here, difference.there))


def _bytes(difference: Difference, model: ModelSpec) -> float:
    return sum(model.by_name[name].gradient_bytes for name in difference.variables)


def worths_blocks(findings: Findings) -> list[Block]:
    worths = (findings.run.result or {}).get("counterfactuals")
    if worths is None:
        return [
            Note("Not measured. Add --counterfactuals 3 to autosync tune for the three decisions that matter most.")
        ]
    if not worths:
        return [Note("The winner is a baseline itself, so no decision of it can be reverted to a baseline's.")]
    timed = [worth for worth in worths if None not in (worth["worth"], worth["worth_interval"])]
    if not timed:
        return [_table(worths)]
    rounds = max(record["rounds"] for record in timed)
    picture = Picture(
        "worths",
        "How many times as long a step takes with one decision reverted",
        f"The winner with one decision reverted to the nearest baseline's, timed in turns with the winner: "
        f"right of the dashed line, the decision pays. Bars are 95 % intervals, paired by round; filled "
        f"marks are those beyond the noise. Decisions depend on each other, so worths do not multiply to "
        f"the whole speed-up. n = {len(timed)} decisions, up to {rounds} rounds each.",
        partial(draw_worths, timed),
    )
    return [picture, _table(worths)]


def _table(worths: list[Mapping[str, Any]]) -> Table:
    titles = ("gradients", "step takes", "95 % interval", "predicted", "rounds")
    rows = [
        TableRow(
            (
                worth["label"] + (f" ({worth['note']})" if worth["note"] else ""),
                megabytes(worth["gradient_bytes"]),
                ratio(worth["worth"]),
                ratio_interval(worth["worth_interval"]),
                ratio(worth["predicted_worth"]),
                str(worth["rounds"]),
            ),
            strong=bool(worth["worth_interval"]) and (worth["worth_interval"][0] > 1 or worth["worth_interval"][1] < 1),
        )
        for worth in worths
    ]
    return Table(
        (*texts("the winner, except"), *numbers(*titles)),
        rows,
        "Predicted is the closed form's expectation before any fit.",
    )

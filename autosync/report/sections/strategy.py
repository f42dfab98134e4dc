"""The section on the winning strategy: where each byte goes and which server or bucket adds it up, by variable and
by link.
"""

from collections.abc import Sequence
from functools import partial

from autosync.report.blocks import Block, Note, Picture, Points, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, rate
from autosync.report.pictures.strategy import (
    MOST,
    Crossing,
    Holder,
    crossings_of,
    draw_holders,
    draw_links,
    holders_of,
    link_name,
)
from autosync.spec import ModelSpec, Strategy
from autosync.words.quantities import count_of, megabytes
from autosync.words.schedule import schedule_lines
from autosync.words.strategy import decision_in_words, strategy_in_words


def strategy_blocks(findings: Findings) -> list[Block]:
    run, winner, model = findings.run, findings.winner, findings.run.model
    if winner is None or model is None:
        why = "No strategy has been timed completely yet" if not findings.contenders else "Its records are not here"
        return [Note(f"{why}, so there is none to draw.")]
    holders = holders_of(winner, model)
    blocks: list[Block] = [
        Points([*strategy_in_words(winner, model), *schedule_lines(winner, run.cluster)]),
        Picture(
            "strategy",
            "A bar for each server and each bucket, made of the variables it adds up",
            f"The servers and all-reduce buckets that add up gradients: a bar is as long as the bytes of one replica's "
            f"gradients in a step, and made of its variables, the largest first; 1/4 is the first of four shards. "
            f"{_note_on_hidden(holders)}n = {count_of(len(model.variables), 'variable')}, "
            f"{megabytes(model.gradient_bytes)}; sizes are exact, but the thinnest bars are drawn as hairlines.",
            partial(draw_holders, holders),
        ),
        _variables(winner, model, holders),
    ]
    baseline = findings.best_baseline
    if baseline is None:
        return [*blocks, Note("No baseline was timed, so there is none to compare the traffic with.")]
    crossings = crossings_of(model, run.cluster, winner, baseline)
    if not crossings:
        return [*blocks, Note("No bytes cross a link, because one process holds all variables.")]
    label = findings.yardstick.label if findings.yardstick else "the best baseline"
    same = "" if winner.digest != baseline.digest else " The best baseline itself is returned, so both are the same."
    return [
        *blocks,
        Picture(
            "links",
            "Predicted bytes a step over each link, for the winner and the best baseline",
            f"Bytes over each link in a step, one direction per row: the winner is dark, {label} is light. Next to the "
            f"bars are the milliseconds for which each fills the link at its rate. All of this is computed from the "
            f"strategy, not measured.{same} n = {count_of(len(crossings), 'direction')}.",
            partial(draw_links, crossings, "winner", label),
        ),
        _links(crossings, label),
    ]


def _note_on_hidden(holders: Sequence[Holder]) -> str:
    rest = holders[MOST:]
    if not rest:
        return ""
    size = megabytes(sum(holder.gradient_bytes for holder in rest))
    return f"{len(rest)} smaller ones with {size} together are in the table only. "


def _variables(winner: Strategy, model: ModelSpec, holders: Sequence[Holder]) -> Table:
    """Every variable, the largest first, with its decision and all holders of its parts."""
    where: dict[str, list[str]] = {}
    for holder in holders:
        for name in dict.fromkeys(part.variable.name for part in holder.parts):
            where.setdefault(name, []).append(holder.name)
    rows = []
    for variable in sorted(model.variables, key=lambda variable: -variable.gradient_bytes):
        decision = winner.by_name[variable.name]
        size = megabytes(variable.gradient_bytes) + (" in rows" if variable.sparse else "")
        shape = " \N{MULTIPLICATION SIGN} ".join(map(str, variable.shape)) or "scalar"
        who = ", ".join(where[variable.name])
        rows.append(TableRow((variable.name, shape, size, decision_in_words(decision, variable), who)))
    columns = (*texts("variable", "shape"), *numbers("gradient"), *texts("how", "where"))
    return Table(columns, rows, "Largest gradients first.", folded=f"{count_of(len(rows), 'variable')} in numbers")


def _links(crossings: Sequence[Crossing], label: str) -> Table:
    rows = [
        TableRow(
            (
                link_name(crossing.link),
                megabytes(crossing.winner_bytes) if crossing.winner_bytes else NOTHING,
                megabytes(crossing.baseline_bytes) if crossing.baseline_bytes else NOTHING,
                f"{1e3 * crossing.seconds:.3g} ms",
                f"{1e3 * crossing.baseline_seconds:.3g} ms",
                f"{rate(crossing.link.gbit_per_s.value)} {crossing.link.gbit_per_s.source}",
            )
        )
        for crossing in crossings
    ]
    titles = ("winner", label, "winner fills it", f"{label} fills it", "Gbit/s")
    return Table(
        (*texts("link"), *numbers(*titles)),
        rows,
        "Predicted bytes a step and how long they fill the link at its rate.",
        folded=f"{count_of(len(rows), 'link direction')} in numbers",
    )

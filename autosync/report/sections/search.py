"""The section on the search: every trial, the best so far, and how often trials beat the best baseline."""

from collections import Counter
from functools import partial

from autosync.report.blocks import Block, Note, Paragraph, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings, Point
from autosync.report.numbers import NOTHING, interval_ms, percent, percent_interval
from autosync.report.pictures.search import draw_search
from autosync.report.style import look_of
from autosync.runs import strategy_name
from autosync.spec import median_interval
from autosync.stats.estimate import share_of
from autosync.stats.hits import hit_rates
from autosync.words.quantities import count_of, milliseconds

OUTCOMES = {"ok": "timed to the end", "stopped": "stopped early", "failed": "failed", "timed_out": "timed out"}


def search_blocks(findings: Findings) -> list[Block]:
    points, yardstick = findings.points, findings.yardstick
    if not any(point.record.median_seconds is not None for point in points):
        return [Note("No trial has been timed yet, so there is no curve to draw.")]
    searched = [point for point in points if point.is_searched]
    rates = hit_rates([(point.number, point.hit) for point in searched]) if searched and yardstick else []
    caption = (
        f"Above: the median step time of each trial with its 95 % interval over steps; large marks with a dark edge "
        f"are baselines, hollow ones were stopped early, ringed ones measured again. The line falls with the best "
        f"so far; the dashed line and its band are the best baseline and its 95 % interval. n = {len(points)} trials."
    )
    if rates:
        caption += (
            f" Below: the share of searched trials, in rounds of about {rates[0].trials}, that beat the best baseline, "
            f"as it was timed in the search and in the finals, by more than two standard errors of their difference; "
            f"bars are Wilson's 95 % intervals."
        )
    blocks: list[Block] = [
        Picture(
            "search",
            "Step time of every trial in order, with the best so far, and the share of hits below",
            caption,
            partial(draw_search, points, yardstick, rates),
        ),
        Paragraph(f"{_counts(points)} {(findings.run.result or {}).get('stopped_because', '')}".strip()),
    ]
    if rates:
        blocks.append(Paragraph(_hits(searched)))
    return [*blocks, _table(points)]


def _counts(points: list[Point]) -> str:
    outcomes = Counter(point.record.outcome for point in points)
    said = ", ".join(f"{outcomes[name]} {words}" for name, words in OUTCOMES.items() if outcomes[name])
    baselines = sum(point.is_baseline for point in points)
    return f"{count_of(len(points), 'trial')}, {baselines} of baselines: {said}."


def _hits(searched: list[Point]) -> str:
    """The hit-rate of the whole search, and that of the strategies that were drawn without the simulator."""
    hits = sum(point.hit for point in searched)
    share = share_of(hits, len(searched))
    text = (
        f"In all, {hits} of {len(searched)} searched trials are hits: {percent(share.value)} "
        f"(95 % interval {percent_interval(share.low, share.high)})."
    )
    drawn = [point for point in searched if point.record.label in ("explore", "random")]
    if drawn and len(drawn) < len(searched):
        drawn_hits = sum(point.hit for point in drawn)
        share = share_of(drawn_hits, len(drawn))
        text += (
            f" Among those drawn without the simulator, it is {drawn_hits} of {len(drawn)}: "
            f"{percent(share.value)} ({percent_interval(share.low, share.high)})."
        )
    return text


def _table(points: list[Point]) -> Table:
    timed = numbers("median", "95 % interval", "predicted")
    return Table(
        (*numbers("trial"), *texts("strategy", "architecture"), *timed, *texts("outcome")),
        [_row(point) for point in points],
        "Every trial; intervals are over the steps of the trial.",
        folded=f"{count_of(len(points), 'trial')} in numbers",
    )


def _row(point: Point) -> TableRow:
    record = point.record
    interval = median_interval(record.step_seconds) if record.timed else None
    median, predicted = record.median_seconds, record.predicted_seconds
    return TableRow(
        (
            str(point.number),
            strategy_name(
                record.label,
                record.strategy.digest,
                record.purpose,
                record.strategy.changes_statistics,
                record.time if median is None else "real",  # the median is already marked
            ),
            point.architecture,
            NOTHING if median is None else milliseconds(median, record.time),
            interval_ms(interval),
            NOTHING if predicted is None else f"{predicted * 1e3:.1f} ms",
            f"{record.outcome}{', hit' if point.hit else ''}{', measured again' if point.remeasured else ''}",
        ),
        strong=point.hit,
        colour=look_of(point.architecture).colour.name,
    )

"""Baselines and winners, with their turns in the finals."""

from collections import Counter
from functools import partial

from autosync.report.blocks import Block, Note, Picture, Row, Table, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio
from autosync.report.pictures.contenders import draw_contenders, draw_rounds
from autosync.report.style import look_of
from autosync.runs import Contender, ratio_of
from autosync.words.quantities import counted, milliseconds

INTERVALS = (
    "Bars are 95 % intervals of the median: over the medians of its turns for what was measured again in turns, over "
    "the steps of its one trial for the rest, which then says nothing of how trials differ."
)


def contenders_blocks(findings: Findings) -> list[Block]:
    contenders, run = findings.contenders, findings.run
    timed = [each for each in contenders if each.median_seconds is not None]
    if not timed:
        return [Note("No baseline has been timed yet.")]
    yardstick = next((each for each in timed if each.digest == run.best_baseline_digest), None)
    seconds = yardstick.median_seconds if yardstick else None
    winner = run.winner_digest if run.verdict else None
    blocks: list[Block] = [
        Picture(
            "contenders",
            "Median step time of every baseline and finalist, with intervals",
            f"Median step time of every finalist, above the line, and of every other baseline, below; "
            f"further left is faster. {INTERVALS} The dashed line is the best baseline; the winner is bold. What was "
            f"timed once, at another moment, may seem faster or slower for that alone. n = {len(timed)} strategies.",
            partial(draw_contenders, contenders, winner, seconds),
        ),
        _table(contenders, winner, yardstick),
    ]
    turns = Counter(each.strategy.digest for each in run.finals)
    if len(run.finals) > len(turns):
        most = max(turns.values())
        alone = " In the last rounds two went on alone." if [*turns.values()].count(most) == 2 < len(turns) else ""
        blocks.append(
            Picture(
                "rounds",
                "Median step time of each finalist in every round of the finals",
                f"The finals round by round: medians of each turn with 95 % intervals over its steps. Finalists take "
                f"turns, so a drift of the machine moves all lines alike, and the verdict compares them within each "
                f"round.{alone} Thick: the winner; dashed: baselines. n = {len(run.finals)} turns.",
                partial(draw_rounds, run.finals, contenders, winner),
            )
        )
    else:
        blocks.append(Note("The finals were not held, or have left no records here: each strategy has one trial."))
    return blocks


def _table(contenders: list[Contender], winner: str | None, yardstick: Contender | None) -> Table:
    return Table(
        (*texts("strategy", "architecture"), *numbers("median", "95 % interval", "speed-up"), *texts("timed")),
        [_row(each, winner, yardstick) for each in contenders],
        "Step times and the speed-up over the best baseline, paired by round as in the verdict at the top. A tilde "
        "marks a ratio of medians, for trials at different times.",
    )


def _row(each: Contender, winner: str | None, yardstick: Contender | None) -> Row:
    over = ratio_of(each, yardstick) if yardstick else None
    speedup = f"{'' if over.is_paired else '~ '}{ratio(over.times)}" if over else NOTHING
    if each.remeasured:
        timed = f"{each.steps} steps in {counted(len(each.turns), 'turn')}" if each.turns else f"{each.steps} steps"
    else:
        timed = (
            f"{each.outcome}, {counted(each.steps, 'step')}" if each.outcome != "ok" else counted(each.steps, "step")
        )
    median = NOTHING if each.median_seconds is None else milliseconds(each.median_seconds, each.time)
    cells = (
        each.name_beside_its_time,
        each.architecture or NOTHING,
        median,
        interval_ms(each.interval),
        speedup,
        timed,
    )
    return Row(cells, strong=each.digest == winner, colour=look_of(each.architecture).colour.name)

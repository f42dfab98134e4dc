"""The section on baselines and finalists, with their turns in the finals."""

from collections import Counter
from functools import partial

from autosync.report.blocks import Block, Note, Picture, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio
from autosync.report.pictures.contenders import draw_contenders, draw_rounds
from autosync.report.style import look_of
from autosync.runs import Contender, ratio_of
from autosync.words.quantities import count_of, milliseconds

INTERVALS = (
    "Bars are 95 % intervals of the median: over the medians of turns for re-measured strategies, and over the steps "
    "of the one trial for others, which leaves out the differences between trials."
)


def contenders_blocks(findings: Findings) -> list[Block]:
    contenders, run = findings.contenders, findings.run
    timed = [contender for contender in contenders if contender.median_seconds is not None]
    if not timed:
        return [Note("No baseline has been timed yet.")]
    yardstick = next((record for record in timed if record.digest == run.best_baseline_digest), None)
    seconds = yardstick.median_seconds if yardstick else None
    winner = run.winner_digest if run.verdict else None
    blocks: list[Block] = [
        Picture(
            "contenders",
            "Median step time of every baseline and finalist, with intervals",
            f"Median step time of every finalist, above the line, and of every other baseline, below; "
            f"further left is faster. {INTERVALS} The dashed line is the best baseline; the winner is bold. A strategy "
            f"that was timed once, at another moment, may seem faster or slower for that reason alone. "
            f"n = {len(timed)} strategies.",
            partial(draw_contenders, contenders, winner, seconds),
        ),
        _table(contenders, winner, yardstick),
    ]
    turns = Counter(final.strategy.digest for final in run.finals)
    if len(run.finals) > len(turns):
        most = max(turns.values())
        alone = (
            " In the last rounds, only two finalists continued."
            if [*turns.values()].count(most) == 2 < len(turns)
            else ""
        )
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
        blocks.append(Note("The finals have not run, or their records are not here, so each strategy has one trial."))
    return blocks


def _table(contenders: list[Contender], winner: str | None, yardstick: Contender | None) -> Table:
    return Table(
        (*texts("strategy", "architecture"), *numbers("median", "95 % interval", "speed-up"), *texts("timed")),
        [_row(contender, winner, yardstick) for contender in contenders],
        "Step times and the speed-up over the best baseline, paired by round as in the verdict at the top. A tilde "
        "marks a ratio of medians, for trials at different times.",
    )


def _row(contender: Contender, winner: str | None, yardstick: Contender | None) -> TableRow:
    over = ratio_of(contender, yardstick) if yardstick else None
    speedup = f"{'' if over.is_paired else '~ '}{ratio(over.times)}" if over else NOTHING
    if contender.remeasured:
        timed = (
            f"{contender.steps} steps in {count_of(len(contender.turns), 'turn')}"
            if contender.turns
            else f"{contender.steps} steps"
        )
    else:
        timed = (
            f"{contender.outcome}, {count_of(contender.steps, 'step')}"
            if contender.outcome != "ok"
            else count_of(contender.steps, "step")
        )
    median = NOTHING if contender.median_seconds is None else milliseconds(contender.median_seconds, contender.time)
    cells = (
        contender.name_beside_its_time,
        contender.architecture or NOTHING,
        median,
        interval_ms(contender.interval),
        speedup,
        timed,
    )
    return TableRow(cells, strong=contender.digest == winner, colour=look_of(contender.architecture).colour.name)

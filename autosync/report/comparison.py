"""Several runs beside each other: what each found, and their curves, over one another where they can be compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from autosync.report.blocks import Block, Headline, Note, Paragraph, Picture, Row, Section, Table, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio, ratio_interval
from autosync.report.page import Page, write_page
from autosync.report.pictures.comparison import draw_curves, draw_speedups, draw_winners
from autosync.report.style import look_of
from autosync.runs import Contender, Run, contender_of
from autosync.words.quantities import counted, duration, milliseconds


@dataclass(frozen=True)
class ComparedRun:
    """One run of several: its winner or best so far, the best baseline, and, if there is a verdict, how many times as
    fast as that the winner is (`speedup`), and the best strategy that was found (`found`)."""

    findings: Findings
    title: str

    @property
    def run(self) -> Run:
        return self.findings.run

    @cached_property
    def winner(self) -> Contender | None:
        return self._contender(self.run.winner_digest)

    @cached_property
    def baseline(self) -> Contender | None:
        return self._contender(self.run.best_baseline_digest)

    @property
    def is_gain(self) -> bool:
        """Whether a strategy that was found is returned, and not the best baseline."""
        return bool(self.run.verdict and self.run.verdict["beyond_noise"])

    @property
    def speedup(self) -> float | None:
        """The speed-up of the returned strategy, 1 for the baseline; None without a verdict."""
        if not self.run.verdict:
            return None
        return float(self.run.verdict["speedup"]) if self.is_gain else 1.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the speed-up; None where the baseline is returned, which was not measured against itself."""
        return self.found[1] if self.found and self.is_gain else None

    @property
    def found(self) -> tuple[float, tuple[float, float]] | None:
        """Speed-up of the best that was found, with its 95 % interval; None where no such strategy was in
        the finals, or too few rounds were held for an interval."""
        verdict = self.run.verdict
        if not verdict or verdict["candidate"] is None or verdict["speedup_interval"] is None:
            return None
        low, high = verdict["speedup_interval"]
        return float(verdict["speedup"]), (float(low), float(high))

    @property
    def best_seconds(self) -> float:
        """Median step seconds of the winner; infinite where there is none."""
        return (self.winner.median_seconds if self.winner else None) or math.inf

    def _contender(self, digest: str | None) -> Contender | None:
        """The contender by the finals, or by its first complete trial where there were none."""
        known = next((each for each in self.findings.contenders if each.digest == digest), None)
        first = next(
            (each for each in self.run.trials if each.strategy.digest == digest and each.outcome == "ok"), None
        )
        return known or (contender_of(first) if first else None)


@dataclass(frozen=True)
class Comparison:
    """Runs as they were named, each with a title of its own."""

    standings: Sequence[ComparedRun]

    @property
    def is_of_one_cell(self) -> bool:
        """Whether all runs have one model and one cluster, so that their step times can be compared."""
        return not self.differ_in

    @property
    def differ_in(self) -> str:
        """What keeps step times from being compared, such as `models`; empty where nothing does."""
        runs = [each.run for each in self.standings]
        kinds = ["models"] if len({each.model_digest for each in runs}) > 1 else []
        if len({each.cluster.digest for each in runs}) > 1:
            alike = all(each.cluster.nodes == runs[0].cluster.nodes for each in runs)
            kinds.append("measurements of what the links carry" if alike else "clusters")
        return " and ".join(kinds)


def standings_of(runs: Sequence[Run]) -> Comparison:
    """The runs to compare. Directories that are called the same are told apart by the folders above them."""
    paths = [run.directory.resolve() for run in runs]
    are_apart = len({path.name for path in paths}) == len(paths)
    titles = [path.name if are_apart else f"{path.parent.name}/{path.name}" for path in paths]
    return Comparison([ComparedRun(Findings(run), title) for run, title in zip(runs, titles, strict=True)])


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write the page that compares the runs. Raises `AutosyncError` when it cannot be written."""
    page = Page(
        _headline(comparison),
        [_winners(comparison), _curves(comparison)],
        ", ".join(each.title for each in comparison.standings),
        "Made by autosync; the page loads nothing from elsewhere.",
    )
    return write_page(page, out, None)


def _headline(comparison: Comparison) -> Headline:
    runs = comparison.standings
    judged = [each for each in runs if each.run.verdict]
    title = f"{counted(len(runs), 'run')} compared"
    if comparison.is_of_one_cell:
        best = min(runs, key=lambda each: each.best_seconds)
        sentence = (
            "All are of one model on one cluster. They were not measured in turns with each other: what a machine's "
            "drift between runs does to step times is not in the intervals; speed-ups are within each run, and are."
        )
        if best.winner is None or math.isinf(best.best_seconds):
            return Headline(title, NOTHING, "no step time yet", "", sentence, "")
        return Headline(
            title,
            milliseconds(best.best_seconds, best.winner.time),
            f"a step: the fastest, of {best.title}",
            f"95 % interval {interval_ms(best.winner.interval)}",
            sentence,
            "",
        )
    sentence = f"They are of different {comparison.differ_in}: step times do not compare, speed-ups within each run do."
    if not judged:
        return Headline(title, NOTHING, "no verdict yet", "", sentence, "")
    sure = sum(each.is_gain for each in judged)
    return Headline(
        title,
        f"{sure} of {len(judged)}",
        "found a strategy that is faster than the best baseline of its run, beyond the noise",
        "each by its own 95 % interval, paired by round",
        sentence,
        "",
    )


def _winners(comparison: Comparison) -> Section:
    runs, blocks = comparison.standings, list[Block]()
    found = [(each.title, *each.found) for each in runs if each.found]
    known = [each for each in runs if math.isfinite(each.best_seconds)]
    if comparison.is_of_one_cell and known:
        blocks.append(
            Picture(
                "winners",
                "Median step time of each run's winner and best baseline",
                f"Median step time of what each run returned, filled, and of its best baseline, hollow; bars are 95 % "
                f"intervals within each run. n = {counted(len(known), 'run')}.",
                partial(draw_winners, [(each.title, each.winner, each.baseline) for each in known]),
            )
        )
    if found:
        blocks.append(
            Picture(
                "speedups",
                "Speed-up over the best baseline in each run",
                f"How many times as fast as the best baseline of its run the best candidate is, paired by round; bars "
                f"are 95 % intervals, filled marks lie beyond the noise. n = {counted(len(found), 'run')}.",
                partial(draw_speedups, found),
            )
        )
    blocks.append(_table(runs))
    return Section("winners", "What each found", "Winners", blocks)


def _table(runs: Sequence[ComparedRun]) -> Table:
    rows = []
    for each in runs:
        winner, seconds = each.winner, each.run.wall_seconds
        rows.append(
            Row(
                (
                    each.title,
                    f"{each.run.model_name}, {counted(len(each.run.cluster.nodes), 'node')}",
                    winner.name_beside_its_time if winner else NOTHING,
                    str(each.run.trial_count),
                    duration(seconds) if seconds else NOTHING,
                    milliseconds(winner.median_seconds, winner.time) if winner else NOTHING,
                    interval_ms(winner.interval) if winner else NOTHING,
                    ratio(each.speedup),
                    ratio_interval(each.interval),
                ),
                colour=look_of(winner.architecture).colour.name if winner else "",
            )
        )
    titles = ("trials", "took", "median", "95 % interval", "speed-up", "95 % interval")
    return Table(
        (*texts("run", "model, cluster", "returned"), *numbers(*titles)),
        rows,
        "What each run returned, or its best so far where there is no verdict; how many times as fast as its best "
        "baseline that is, and 1 where it is that.",
    )


def _curves(comparison: Comparison) -> Section:
    lines = []
    for each in comparison.standings:
        best = [point.record for point in each.findings.points if point.record.outcome == "ok"]
        numbers = [point.number for point in each.findings.points if point.record.outcome == "ok"]
        if best:
            lines.append((each.title, numbers, best, each.findings.yardstick))
    if not lines:
        return Section("curves", "The searches", "Curves", [Note("No run has left records of trials here.")])
    relative = not comparison.is_of_one_cell
    unit = "in shares of its best baseline's" if relative else "in milliseconds"
    blocks: list[Block] = [
        Picture(
            "curves",
            "The best step time so far over trials, a line for each run",
            f"The least median step time so far after each trial, {unit}; the band of the same colour is the 95 % "
            f"interval of the run's best baseline. A point of a line is one trial's median, whose interval stands in "
            f"the run's own report. n = {counted(len(lines), 'run')}.",
            partial(draw_curves, lines, relative),
        )
    ]
    if relative:
        blocks.append(Paragraph("Below 1, the best so far is faster than the best baseline of its run."))
    return Section("curves", "The searches", "Curves", blocks)

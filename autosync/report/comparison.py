"""Compares several runs: the winner of each, and their curves, in one picture if their step times are comparable."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from autosync.report.blocks import Block, Headline, Note, Paragraph, Picture, Section, Table, TableRow, numbers, texts
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio, ratio_interval
from autosync.report.page import Page, write_page
from autosync.report.pictures.comparison import draw_curves, draw_speedups, draw_winners
from autosync.report.style import look_of
from autosync.runs import Contender, Run, contender_of
from autosync.words.quantities import count_of, duration, milliseconds


@dataclass(frozen=True)
class ComparedRun:
    """One of several compared runs: its winner or best so far, its best baseline and, with a verdict, its speed-ups."""

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
        """Whether a candidate is returned, and not the best baseline."""
        return bool(self.run.verdict and self.run.verdict["beyond_noise"])

    @property
    def speedup(self) -> float | None:
        """The speed-up of the returned strategy, 1 for the best baseline; None without a verdict."""
        if not self.run.verdict:
            return None
        return float(self.run.verdict["speedup"]) if self.is_gain else 1.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the speed-up; None if the baseline is returned, because it was not measured against
        itself.
        """
        return self.candidate[1] if self.candidate and self.is_gain else None

    @property
    def candidate(self) -> tuple[float, tuple[float, float]] | None:
        """The speed-up of the best candidate, with its 95 % interval; None if no candidate was in the finals, or if
        there were too few rounds for an interval.
        """
        verdict = self.run.verdict
        if not verdict or verdict["candidate"] is None or verdict["speedup_interval"] is None:
            return None
        low, high = verdict["speedup_interval"]
        return float(verdict["speedup"]), (float(low), float(high))

    @property
    def best_seconds(self) -> float:
        """Median step seconds of the winner; infinite without one."""
        return (self.winner.median_seconds if self.winner else None) or math.inf

    def _contender(self, digest: str | None) -> Contender | None:
        """The contender with its figures from the finals or, without finals, from its first complete trial."""
        known = next((contender for contender in self.findings.contenders if contender.digest == digest), None)
        first = next(
            (trial for trial in self.run.trials if trial.strategy.digest == digest and trial.outcome == "ok"), None
        )
        return known or (contender_of(first) if first else None)


@dataclass(frozen=True)
class Comparison:
    """The compared runs in the order given, each with a distinct title."""

    standings: Sequence[ComparedRun]

    @property
    def is_of_one_cell(self) -> bool:
        """Whether all runs have one model and one cluster, so that their step times can be compared."""
        return not self.differ_in

    @property
    def differ_in(self) -> str:
        """The reason why step times are not comparable, such as `models`; empty if they are."""
        runs = [standing.run for standing in self.standings]
        kinds = ["models"] if len({run.model_digest for run in runs}) > 1 else []
        if len({run.cluster.digest for run in runs}) > 1:
            alike = all(run.cluster.nodes == runs[0].cluster.nodes for run in runs)
            kinds.append("measured link rates" if alike else "clusters")
        return " and ".join(kinds)


def standings_of(runs: Sequence[Run]) -> Comparison:
    """Prepare runs for a comparison. Runs whose directories have equal names are distinguished by the parent
    folders.
    """
    paths = [run.directory.resolve() for run in runs]
    are_apart = len({path.name for path in paths}) == len(paths)
    titles = [path.name if are_apart else f"{path.parent.name}/{path.name}" for path in paths]
    return Comparison([ComparedRun(Findings(run), title) for run, title in zip(runs, titles, strict=True)])


def write_comparison(comparison: Comparison, out: Path) -> Path:
    """Write the page that compares the runs. Raises `AutosyncError` if it cannot be written."""
    page = Page(
        _headline(comparison),
        [_winners(comparison), _curves(comparison)],
        ", ".join(standing.title for standing in comparison.standings),
        "Made by autosync; the page loads nothing from elsewhere.",
    )
    return write_page(page, out, None)


def _headline(comparison: Comparison) -> Headline:
    runs = comparison.standings
    judged = [compared for compared in runs if compared.run.verdict]
    title = f"{count_of(len(runs), 'run')} compared"
    if comparison.is_of_one_cell:
        best = min(runs, key=lambda compared: compared.best_seconds)
        sentence = (
            "All runs have one model and one cluster. They were not measured in turns with each other, so the "
            "intervals of step times leave out the machine's drift between runs; speed-ups are within each run."
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
    sentence = (
        f"They have different {comparison.differ_in}: step times are not comparable, but speed-ups within each run are."
    )
    if not judged:
        return Headline(title, NOTHING, "no verdict yet", "", sentence, "")
    sure = sum(compared.is_gain for compared in judged)
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
    candidates = [(compared.title, *compared.candidate) for compared in runs if compared.candidate]
    known = [compared for compared in runs if math.isfinite(compared.best_seconds)]
    if comparison.is_of_one_cell and known:
        blocks.append(
            Picture(
                "winners",
                "Median step time of each run's winner and best baseline",
                f"Median step time of the strategy that each run returned (filled) and of its best baseline (hollow); "
                f"bars are 95 % intervals within each run. n = {count_of(len(known), 'run')}.",
                partial(draw_winners, [(compared.title, compared.winner, compared.baseline) for compared in known]),
            )
        )
    if candidates:
        blocks.append(
            Picture(
                "speedups",
                "Speed-up over the best baseline in each run",
                f"How many times as fast as the best baseline of its run the best candidate is, paired by round; bars "
                f"are 95 % intervals, filled marks lie beyond the noise. n = {count_of(len(candidates), 'run')}.",
                partial(draw_speedups, candidates),
            )
        )
    blocks.append(_table(runs))
    return Section("winners", "Results", "Winners", blocks)


def _table(runs: Sequence[ComparedRun]) -> Table:
    rows = []
    for compared in runs:
        winner, seconds = compared.winner, compared.run.wall_seconds
        rows.append(
            TableRow(
                (
                    compared.title,
                    f"{compared.run.model_name}, {count_of(len(compared.run.cluster.nodes), 'node')}",
                    winner.name_beside_its_time if winner else NOTHING,
                    str(compared.run.trial_count),
                    duration(seconds) if seconds else NOTHING,
                    milliseconds(winner.median_seconds, winner.time) if winner else NOTHING,
                    interval_ms(winner.interval) if winner else NOTHING,
                    ratio(compared.speedup),
                    ratio_interval(compared.interval),
                ),
                colour=look_of(winner.architecture).colour.name if winner else "",
            )
        )
    titles = ("trials", "took", "median", "95 % interval", "speed-up", "95 % interval")
    return Table(
        (*texts("run", "model, cluster", "returned"), *numbers(*titles)),
        rows,
        "The strategy that each run returned, or its best so far without a verdict, and the speed-up over the run's "
        "best baseline: 1 if the baseline itself is returned.",
    )


def _curves(comparison: Comparison) -> Section:
    lines = []
    for standing in comparison.standings:
        best = [point.record for point in standing.findings.points if point.record.outcome == "ok"]
        numbers = [point.number for point in standing.findings.points if point.record.outcome == "ok"]
        if best:
            lines.append((standing.title, numbers, best, standing.findings.yardstick))
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
            f"the run's own report. n = {count_of(len(lines), 'run')}.",
            partial(draw_curves, lines, relative),
        )
    ]
    if relative:
        blocks.append(Paragraph("Below 1, the best so far is faster than the best baseline of its run."))
    return Section("curves", "The searches", "Curves", blocks)

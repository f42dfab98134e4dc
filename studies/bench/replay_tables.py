"""Tables of replayed searches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosync.stats.estimate import median_of, share_of
from autosync.stats.tables import NOTHING, TextTable, in_percent
from studies.bench.contenders import ABLATIONS, IDEAL, OURS
from studies.bench.standings import CLOSE, MOST_REGRET, YARDSTICK, Curves, Standings
from studies.bench.words import in_bound, in_seconds, in_times, in_trials

EARLY = 40
"""Trials after which a search should be close to the best."""

NEVER_LESS = "A search that was not that close by its last trial counts as never."


def cells_table(facts: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the table of the cells: their size, noise, best baseline and best strategy."""
    rows = [
        (
            row["cell"],
            f"{row['variables']}",
            f"{row['replicas']}",
            f"10^{row['log10_size']:.0f}",
            f"{row['effective_dimension']:.1f}",
            f"{row['pool']} ({row['records']})",
            f"{100 * row['deviation']:.1f} %",
            f"{1e3 * row['baseline_seconds']:.1f} ms, {row['baseline_label']}",
            f"{1e3 * row['median_baseline_seconds']:.1f} ms",
            f"{1e3 * row['best_seconds']:.1f} ms, {row['best_label']}",
            f"{row['baseline_seconds'] / row['best_seconds']:.2f}",
            in_bound(row["baseline_seconds"], row["bound_seconds"]),
            f"{row['within_5_percent']}",
            f"{100 * row['hit_share']:.1f} %",
        )
        for row in facts
    ]
    header = (
        "cell",
        "variables",
        "replicas",
        "space",
        "dimension",
        "pool (trials)",
        "noise",
        "best baseline",
        "middle one",
        "best",
        "x",
        "bound",
    )
    return TextTable(
        "cells",
        "Cells",
        "*space*: strategies in the whole search space; *dimension*: the effective dimension of the space, the number "
        "of equally free variables that would make a space of this size; *pool*: timed strategies, among which the "
        "search chooses; *noise*: standard deviation of one trial's step time; *x*: step time of the best baseline "
        "divided by that of the best strategy; *middle one*: the median baseline; *bound*: the same ratio for the "
        "lower bound of exact strategies by links and cores alone (`autosync/cost/bound.py`); *within 5 %*: strategies "
        "within 5 % of the best; *hits*: share of the trials, without baselines, that are faster than the best "
        "baseline by 2 standard errors.",
        (*header, "within 5 %", "hits"),
        rows,
    )


def summary_table(standings: Standings, name: str, title: str) -> TextTable:
    """Return the table of all searchers over all cells."""
    rows = []
    for searcher in standings.searchers:
        by_cell = standings.curves_by_cell(searcher).values()
        most = max(curves.true.shape[1] for curves in by_cell)
        seconds = np.concatenate([curves.seconds_to(CLOSE[0]) for curves in by_cell])
        thinking = np.concatenate([curves.thinking_seconds / curves.true.shape[1] for curves in by_cell])
        than_random = YARDSTICK in standings.searchers
        rows.append(
            (
                searcher,
                in_trials(standings.trials(searcher, CLOSE[0]), most),
                in_trials(standings.trials(searcher, CLOSE[1]), most),
                in_percent(standings.share_reaching(searcher, CLOSE[0], EARLY)),
                in_times(standings.fewer_trials(searcher, YARDSTICK)) if than_random else NOTHING,
                in_percent(standings.area(searcher)),
                in_times(standings.less_area(searcher, YARDSTICK)) if than_random else NOTHING,
                in_times(standings.improvement(searcher, EARLY)),
                in_percent(standings.median_regret_of_returned(searcher, EARLY)),
                in_seconds(median_of(seconds)),
                f"{np.median(thinking):.2g} s",
            )
        )
    return TextTable(
        name,
        title,
        f"Over {len(standings.cells)} cells. *to 5 %*, *to 1 %*: trials until a strategy within 5 % or 1 % of the "
        f"pool's best was timed, median over cells and seeds. {NEVER_LESS} *in {EARLY}*: share of searches within 5 % "
        f"after {EARLY} trials. *fewer*: trials to 5 % of {YARDSTICK} search divided by those of this searcher, "
        "geometric mean over cells of the ratio of medians. *area*: area under the regret curve, which is the mean "
        f"regret over all trials, with regrets above {MOST_REGRET:.0%} counted as {MOST_REGRET:.0%}; *less*: the area "
        f"of {YARDSTICK} search divided by this one. *x after*: speed-up over the best baseline after {EARLY} trials. "
        f"*returned*: median regret, after {EARLY} trials, of the strategy with the least measured time, which may be "
        "due to noise. *clock*: seconds of trials to 5 %. *thinking*: processor time per trial. "
        f"*{IDEAL}* is an oracle, not a searcher: as far as the records tell, it knows the noise-free time of each "
        "strategy and times strategies in that order.",
        (
            "searcher",
            "to 5 %",
            "to 1 %",
            f"in {EARLY}",
            "fewer",
            "area",
            "less",
            f"x after {EARLY}",
            "returned",
            "clock",
            "thinking",
        ),
        rows,
    )


def close_table(standings: Standings, share: float, name: str, title: str) -> TextTable:
    """Return the table of trials to within `share` of the best, cell by cell."""
    rows = _by_cell(standings, lambda curves: in_trials(median_of(curves.trials_to(share)), curves.true.shape[1]))
    return TextTable(
        name,
        f"Trials to within {100 * share:.0f} % of the pool's best, {title}",
        f"Median over seeds, and two order statistics that enclose it with 95 % confidence. {NEVER_LESS}",
        ("cell", *standings.searchers),
        rows,
    )


def improvement_table(standings: Standings, name: str, title: str) -> TextTable:
    """Return the table of speed-ups and regrets after `EARLY` trials, cell by cell."""

    def text_of(curves: Curves) -> str:
        early = min(EARLY, curves.true.shape[1]) - 1
        gain, regret = median_of(curves.improvement[:, early]), median_of(curves.regret[:, early])
        return f"{in_times(gain)}, {in_percent(regret)}"

    return TextTable(
        name,
        f"Improvement and regret after {EARLY} trials, {title}",
        "Speed-up over the best baseline, and the share by which the best strategy found is slower than the pool's "
        "best; medians over seeds.",
        ("cell", *standings.searchers),
        _by_cell(standings, text_of),
    )


def hits_table(standings: Standings, facts: Sequence[Mapping[str, Any]], name: str, title: str) -> TextTable:
    """Return the table of hit-rates: how often a trial chosen by a searcher beats the best baseline."""
    shares = [row["hit_share"] for row in facts if row["cell"] in standings.cells]
    rows = []
    for searcher in standings.searchers:
        if searcher == IDEAL:  # the oracle does not search
            continue
        hits = [curves.hits[:, :EARLY] for curves in standings.curves_by_cell(searcher).values()]
        known = np.concatenate([flags[np.isfinite(flags)] for flags in hits])
        rows.append((searcher, in_percent(share_of(int(known.sum()), len(known))), f"{len(known)}"))
    return TextTable(
        name,
        f"Hit-rate in the first {EARLY} trials, {title}",
        "Share of trials faster than the best baseline by 2 standard errors, with Wilson's interval; baselines and "
        f"repeated timings do not count. In the pools, {100 * float(np.mean(shares or [0.0])):.1f} % of the trials are "
        "hits.",
        ("searcher", "hit-rate", "trials"),
        rows,
    )


def ablations_table(standings: Standings, name: str, title: str) -> TextTable:
    """Return the table of ablations: guided search compared with itself without one part."""
    searchers, rows = standings.searchers, []
    for pair in ABLATIONS:
        if pair.whole in searchers and pair.less in searchers:
            better, differ, chance = standings.cells_with_less_area(pair.whole, pair.less)
            rows.append(
                (
                    pair.left_out,
                    pair.whole,
                    in_trials(standings.trials(pair.whole), _budget(standings, pair.whole)),
                    in_trials(standings.trials(pair.less), _budget(standings, pair.less)),
                    in_times(standings.fewer_trials(pair.whole, pair.less)),
                    in_times(standings.less_area(pair.whole, pair.less)),
                    f"{better} of {differ} (p {chance:.2g})",
                )
            )
    return TextTable(
        name,
        title,
        "Guided search without one part, over the seeds that all contenders have run. *more trials*: trials to 5 % "
        "divided by those of the whole; *more area*: area under the regret curve divided by that of the whole; both "
        "are geometric means over cells. Above 1, the part helps on these cells. *cells*: cells where the whole has "
        "less area, and the p-value of a sign test, which treats all cells as alike.",
        ("without", "whole", "to 5 %, whole", "to 5 %, without", "more trials", "more area", "cells"),
        rows,
    )


def targets_table(standings: Standings, name: str, title: str) -> TextTable:
    """Return the table of guided search's targets, on all cells and on those where no baseline is close to the best."""
    rows = _targets(standings, "")
    undecided = standings.on_open_cells()
    if undecided.cells and len(undecided.cells) < len(standings.cells):
        where = f"; in the {len(undecided.cells)} of {len(standings.cells)} cells where no baseline is that close"
        rows += _targets(undecided, where)
    about = "The best rival is the searcher that guided search beats by the least; baselines count as trials."
    return TextTable(name, title, about, ("target", "reached", "measured"), rows)


def _targets(standings: Standings, where: str) -> list[tuple[str, str, str]]:
    if OURS not in standings.searchers:
        return []
    median = standings.trials(OURS)
    target = f"within 5 % of the best known in at most {EARLY} trials, median{where}"
    rows = [_target(target, median.value <= EARLY, in_trials(median, _budget(standings, OURS)))]
    rivals = [name for name in standings.searchers if name != IDEAL and not name.startswith(OURS)]
    times = {name: standings.fewer_trials(OURS, name) for name in rivals}
    if times:
        best = min(times, key=lambda name: times[name].value)
        target = f"at most half the trials of the best rival, {best}{where}"
        rows.append(_target(target, times[best].value >= 2, f"{in_times(times[best])} times fewer"))
    return rows


def _target(target: str, reached: bool, measured: str) -> tuple[str, str, str]:
    return target, "yes" if reached else "no", measured


def _by_cell(standings: Standings, text_of: Callable[[Curves], str]) -> list[tuple[str, ...]]:
    """Return a row per cell, with a text for each searcher's curves."""
    by_searcher = {searcher: standings.curves_by_cell(searcher) for searcher in standings.searchers}
    return [(cell, *(text_of(curves[cell]) for curves in by_searcher.values())) for cell in standings.cells]


def _budget(standings: Standings, searcher: str) -> int:
    return max(curves.true.shape[1] for curves in standings.curves_by_cell(searcher).values())

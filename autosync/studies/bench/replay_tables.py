"""Tables of replayed searches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosync.stats.estimate import median_of, share_of
from autosync.stats.tables import NOTHING, Table, in_percent
from autosync.studies.bench.contenders import ABLATIONS, IDEAL, OURS
from autosync.studies.bench.standings import CLOSE, MOST_REGRET, YARDSTICK, Curves, Standings
from autosync.studies.bench.words import in_bound, in_seconds, in_times, in_trials

EARLY = 40
"""Trials after which a search should be close."""

NEVER_LESS = "Searches that were not so close by their last trial count as never."


def cells_table(facts: Sequence[Mapping[str, Any]]) -> Table:
    """The table of what there is to find in each cell."""
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
    return Table(
        "cells",
        "Cells",
        "*space*: strategies in the whole search space; *dimension*: its effective dimension, the variables that "
        "would make as large a space if all were equally free; *pool*: strategies that were timed and are searched "
        "among; *noise*: standard deviation of one trial's step time; *x*: step time of the best baseline over the "
        "best's; *middle one*: of the baselines; *bound*: over what no exact strategy goes below, by "
        "links and cores alone (`autosync/cost/bound.py`); *within 5 %*: strategies so close to the best; *hits*: "
        "share of the trials, baselines not counted, faster than the best baseline by 2 standard errors.",
        (*header, "within 5 %", "hits"),
        rows,
    )


def summary_table(standings: Standings, name: str, title: str) -> Table:
    """The table of every searcher over all cells."""
    rows = []
    for searcher in standings.searchers:
        own = standings.own(searcher).values()
        most = max(each.true.shape[1] for each in own)
        seconds = np.concatenate([each.seconds_to(CLOSE[0]) for each in own])
        thinking = np.concatenate([each.thinking_seconds / each.true.shape[1] for each in own])
        than_random = YARDSTICK in standings.searchers
        rows.append(
            (
                searcher,
                in_trials(standings.trials(searcher, CLOSE[0]), most),
                in_trials(standings.trials(searcher, CLOSE[1]), most),
                in_percent(standings.reached(searcher, CLOSE[0], EARLY)),
                in_times(standings.fewer_trials(searcher, YARDSTICK)) if than_random else NOTHING,
                in_percent(standings.area(searcher)),
                in_times(standings.less_area(searcher, YARDSTICK)) if than_random else NOTHING,
                in_times(standings.improvement(searcher, EARLY)),
                in_percent(standings.returned(searcher, EARLY)),
                in_seconds(median_of(seconds)),
                f"{np.median(thinking):.2g} s",
            )
        )
    return Table(
        name,
        title,
        f"Over {len(standings.cells)} cells. *to 5 %*, *to 1 %*: trials until a strategy so close to the pool's "
        f"best was timed, median over cells and seeds. {NEVER_LESS} *in {EARLY}*: share of searches within 5 % by "
        f"then. *fewer*: times fewer trials to 5 % than {YARDSTICK} search, geometric mean over cells of the ratio "
        "of medians. *area*: under the regret curve, the mean regret over all trials, in which one of over "
        f"{MOST_REGRET:.0%} counts as {MOST_REGRET:.0%}; *less*: times less area. *x "
        f"after*: speed-up over the best baseline after {EARLY} trials. *returned*: median regret then of the one "
        "that was measured fastest, which noise may have made so. *clock*: seconds of trials to 5 %. *thinking*: "
        f"processor time a trial. *{IDEAL}* is no searcher, but a reference: it knows what each strategy takes without "
        "noise, as far as the records tell, and times them in that order.",
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


def close_table(standings: Standings, share: float, name: str, title: str) -> Table:
    """The table of trials to within `share`, cell by cell."""
    rows = _by_cell(standings, lambda own: in_trials(median_of(own.trials_to(share)), own.true.shape[1]))
    return Table(
        name,
        f"Trials to within {100 * share:.0f} % of the pool's best, {title}",
        f"Median over seeds, and two order statistics that hold it with 95 %. {NEVER_LESS}",
        ("cell", *standings.searchers),
        rows,
    )


def improvement_table(standings: Standings, name: str, title: str) -> Table:
    """The table of what was found in the end, cell by cell."""

    def text_of(curves: Curves) -> str:
        early = min(EARLY, curves.true.shape[1]) - 1
        gain, regret = median_of(curves.improvement[:, early]), median_of(curves.regret[:, early])
        return f"{in_times(gain)}, {in_percent(regret)}"

    return Table(
        name,
        f"Improvement and regret after {EARLY} trials, {title}",
        "Speed-up over the best baseline, and by what share the best found is slower than the pool's best; medians "
        "over seeds.",
        ("cell", *standings.searchers),
        _by_cell(standings, text_of),
    )


def hits_table(standings: Standings, facts: Sequence[Mapping[str, Any]], name: str, title: str) -> Table:
    """The table of how often a trial that a searcher chose is better than the best baseline."""
    shares = [row["hit_share"] for row in facts if row["cell"] in standings.cells]
    rows = []
    for searcher in standings.searchers:
        if searcher == IDEAL:  # it has nothing to look for
            continue
        hits = [each.hits[:, :EARLY] for each in standings.own(searcher).values()]
        known = np.concatenate([each[np.isfinite(each)] for each in hits])
        rows.append((searcher, in_percent(share_of(int(known.sum()), len(known))), f"{len(known)}"))
    return Table(
        name,
        f"Hit-rate in the first {EARLY} trials, {title}",
        "Share of trials faster than the best baseline by 2 standard errors, with Wilson's interval; baselines, and "
        f"what was timed again, do not count. Of the pools' trials {100 * float(np.mean(shares or [0.0])):.1f} % are.",
        ("searcher", "hit-rate", "trials"),
        rows,
    )


def ablations_table(standings: Standings, name: str, title: str) -> Table:
    """The table of what guided search loses without a part."""
    there, rows = standings.searchers, []
    for each in ABLATIONS:
        if each.whole in there and each.less in there:
            better, differ, chance = standings.cells_with_less_area(each.whole, each.less)
            rows.append(
                (
                    each.left_out,
                    each.whole,
                    in_trials(standings.trials(each.whole), _budget(standings, each.whole)),
                    in_trials(standings.trials(each.less), _budget(standings, each.less)),
                    in_times(standings.fewer_trials(each.whole, each.less)),
                    in_times(standings.less_area(each.whole, each.less)),
                    f"{better} of {differ} (p {chance:.2g})",
                )
            )
    return Table(
        name,
        title,
        "Guided search without a part, by the seeds that all were run with. *more trials*: to 5 %, *more area*: under "
        "the regret curve, times those of the whole; geometric mean over cells. Over 1: the part is worth having, on "
        "these cells. *cells*: in how many the whole has less area, and how likely so uneven a count is by chance (sign"
        " test), which speaks of cells alike.",
        ("without", "whole", "to 5 %, whole", "to 5 %, without", "more trials", "more area", "cells"),
        rows,
    )


def targets_table(standings: Standings, name: str, title: str) -> Table:
    """What guided search was built to reach, on all cells and on those where the baselines are not close already."""
    rows = _targets(standings, "")
    undecided = standings.undecided()
    if undecided.cells and len(undecided.cells) < len(standings.cells):
        where = f"; in {len(undecided.cells)} of {len(standings.cells)} cells, where no baseline is so close"
        rows += _targets(undecided, where)
    about = "The best rival is the one that guided search beats by least; baselines count as trials like others."
    return Table(name, title, about, ("target", "reached", "measured"), rows)


def _targets(standings: Standings, where: str) -> list[tuple[str, str, str]]:
    if OURS not in standings.searchers:
        return []
    median = standings.trials(OURS)
    what = f"within 5 % of the best known in at most {EARLY} trials, median{where}"
    rows = [_target(what, median.value <= EARLY, in_trials(median, _budget(standings, OURS)))]
    rivals = [each for each in standings.searchers if each != IDEAL and not each.startswith(OURS)]
    times = {each: standings.fewer_trials(OURS, each) for each in rivals}
    if times:
        best = min(times, key=lambda each: times[each].value)
        what = f"at most half the trials of the best rival, {best}{where}"
        rows.append(_target(what, times[best].value >= 2, f"{in_times(times[best])} times fewer"))
    return rows


def _target(what: str, reached: bool, measured: str) -> tuple[str, str, str]:
    return what, "yes" if reached else "no", measured


def _by_cell(standings: Standings, text_of: Callable[[Curves], str]) -> list[tuple[str, ...]]:
    """A row for each cell, with a text for each searcher's curves."""
    own = {searcher: standings.own(searcher) for searcher in standings.searchers}
    return [(cell, *(text_of(curves[cell]) for curves in own.values())) for cell in standings.cells]


def _budget(standings: Standings, searcher: str) -> int:
    return max(each.true.shape[1] for each in standings.own(searcher).values())

"""Curves of searches, and their standings, tables and costs, on rows that can be checked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from autosync.stats.estimate import share_of
from autosync.stats.tables import in_percent
from studies.bench.contenders import IDEAL
from studies.bench.cost import replay_costs
from studies.bench.replay_tables import ablations_table, hits_table, targets_table
from studies.bench.standings import Contest, Standings, curves_of


def row(true: list[float], seed: int = 0, **changed: Any) -> dict[str, Any]:
    usual = {
        "cell": "a@b",
        "searcher": "random",
        "baselines": True,
        "seed": seed,
        "trials": 5,
        "taught_on": "",
        "best_seconds": 1.0,
        "baseline_seconds": 2.0,
        "purposes": ["search"] * len(true),
        "measured_seconds": list(true),
        "true_seconds": true,
        "hits": [seconds < 2.0 for seconds in true],
        "clock_seconds": [10.0 * number for number in range(1, len(true) + 1)],
        "search_seconds": 0.5,
    }
    return usual | changed


def only(*rows: dict[str, Any]):
    (curves,) = curves_of(rows).values()
    return curves


def test_the_best_so_far_never_gets_worse() -> None:
    curves = only(row([3.0, 2.0, 2.5, 1.0, 4.0]))
    assert curves.best.tolist() == [[3.0, 2.0, 2.0, 1.0, 1.0]]
    assert curves.regret.tolist() == [[2.0, 1.0, 1.0, 0.0, 0.0]]
    assert curves.improvement.tolist() == [[2 / 3, 1.0, 1.0, 2.0, 2.0]]


def test_each_seed_is_held_against_the_best_of_its_own_pool() -> None:
    curves = only(row([2.0, 1.5]), row([2.0, 1.5], seed=1, best_seconds=1.5, baseline_seconds=3.0))
    assert curves.regret[:, 1].tolist() == [0.5, 0.0]
    assert curves.regret_of_returned[:, 1].tolist() == [0.5, 0.0]
    assert curves.improvement[:, 0].tolist() == [1.0, 1.5]


def test_regret_over_100_percent_counts_as_that_in_the_area() -> None:
    assert only(row([3.0, 1.5, 1.5, 1.0, 4.0])).area == pytest.approx([(1 + 0.5 + 0.5 + 0 + 0) / 5])


def test_trials_and_seconds_until_it_is_close() -> None:
    curves = only(row([3.0, 1.04, 1.0, 1.0, 1.0]), row([3.0, 3.0, 3.0, 3.0, 3.0], seed=1))
    assert curves.trials_to(0.05).tolist() == [2.0, math.inf]
    assert curves.trials_to(0.01).tolist() == [3.0, math.inf]
    assert curves.seconds_to(0.05).tolist() == [20.0, math.inf]


def test_a_search_that_ended_early_stays_where_it_ended() -> None:
    curves = only(row([3.0, 1.5]))
    assert curves.best.tolist() == [[3.0, 1.5, 1.5, 1.5, 1.5]]
    assert curves.clock.tolist() == [[10.0, 20.0, 20.0, 20.0, 20.0]]
    assert np.isnan(curves.hits[0, 2:]).all()


def test_a_failed_trial_is_no_best() -> None:
    curves = only(row([math.inf, 1.5, math.inf, 1.2, 1.2], measured_seconds=[None, 1.5, None, 1.2, 1.2]))
    assert curves.best.tolist() == [[math.inf, 1.5, 1.5, 1.2, 1.2]]
    assert np.isfinite(curves.area).all()


def test_what_was_measured_fastest_may_be_a_lucky_one() -> None:
    curves = only(row([1.5, 1.0, 1.3, 1.2, 1.1], measured_seconds=[1.5, 1.1, 0.9, 1.2, 0.95]))
    assert curves.regret_of_returned[0] == pytest.approx([0.5, 0.0, 0.3, 0.3, 0.3])


def test_hits_are_counted_by_round_without_baselines_and_what_is_timed_again() -> None:
    purposes = ["baseline", "remeasure", "search", "search", "search"]
    curves = only(row([1.5, 3.0, 1.5, 3.0, 3.0], purposes=purposes))
    ((last, rate),) = curves.hit_rates()
    assert last == 5
    assert rate.value == pytest.approx(1 / 3)


def test_contests_are_told_apart_and_the_largest_budget_counts() -> None:
    rows = [
        row([1.0]),
        row([1.0], searcher="gp"),
        row([1.0], baselines=False),
        row([1.5], trials=3),
        row([1.0, 1.0], trials=7),
    ]
    contests = curves_of(rows)
    assert set(contests) == {
        Contest("a@b", "random", True),
        Contest("a@b", "gp", True),
        Contest("a@b", "random", False),
    }
    assert contests[Contest("a@b", "random", True)].true.shape == (1, 7)


def test_searches_taught_on_other_cells_are_not_thrown_together() -> None:
    taught = [row([1.5], seed, taught_on="others") for seed in range(3)]
    assert only(row([1.0]), *taught).true[:, 0].tolist() == [1.5, 1.5, 1.5]


def contest(cell: str, searcher: str, first: list[int]) -> list[dict[str, Any]]:
    """Searches that come close at the trials `first`; a trial after the last one stands for never."""
    return [
        row([3.0] * (at - 1) + [1.0] * max(0, 6 - at), seed, cell=cell, searcher=searcher)
        for seed, at in enumerate(first)
    ]


STANDINGS = Standings.of(
    curves_of(
        [
            *contest("a@b", "random", [4, 4, 4]),
            *contest("a@b", "gp", [2, 2, 2]),
            *contest("c@d", "random", [6, 6, 6]),
            *contest("c@d", "gp", [3, 3, 3]),
            *contest("c@d", "evolution", [1, 1, 1]),
        ]
    ),
    baselines=True,
)


def test_searchers_are_those_of_all_cells_with_the_fewest_trials_first() -> None:
    assert STANDINGS.cells == ["a@b", "c@d"]
    assert STANDINGS.searchers == ["gp", "random"]


def test_times_fewer_trials_are_a_geometric_mean_over_cells() -> None:
    ratio = STANDINGS.fewer_trials("gp", "random")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert STANDINGS.fewer_trials("random", "gp").value == pytest.approx(0.5)


def test_times_fewer_trials_are_ratios_of_medians_so_that_one_slow_seed_says_little() -> None:
    """Close after 1 trial, after 2, and never, which counts as 6: the median is 2, the mean 3; resamples have all
    three."""
    rows = [*contest("a@b", "random", [4, 4, 4]), *contest("a@b", "gp", [1, 2, 6])]
    ratio = Standings.of(curves_of(rows), baselines=True).fewer_trials("gp", "random")
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((4 / 2, 4 / 6, 4 / 1))


def test_trials_of_all_cells_and_the_share_that_came_close_in_time() -> None:
    assert STANDINGS.trials("gp").value == 2.5
    assert STANDINGS.trials("random").value == math.inf
    assert STANDINGS.share_reaching("gp", 0.05, 2).value == 0.5


def test_less_area_and_the_speed_up_after_some_trials() -> None:
    # Regret is 100 % until it is 0: the area is the share of trials before.
    assert STANDINGS.less_area("gp", "random").value == pytest.approx(math.sqrt((3 / 1) * (5 / 2)))
    assert STANDINGS.improvement("gp", 5).value == pytest.approx(2.0)
    assert STANDINGS.improvement("gp", 2).value == pytest.approx(math.sqrt(2.0 * 2 / 3))


def test_cells_with_less_area_are_counted_of_those_that_differ() -> None:
    """Three cells better and one worse: a split of four coin throws at least that uneven has a probability of 10/16."""
    first = {"a@b": (2, 4), "c@d": (1, 2), "e@f": (3, 5), "g@h": (5, 1), "i@j": (3, 3)}
    rows = [
        search
        for cell, (gp, random) in first.items()
        for search in (*contest(cell, "gp", [gp] * 3), *contest(cell, "random", [random] * 3))
    ]
    standings = Standings.of(curves_of(rows), baselines=True)
    assert standings.cells_with_less_area("gp", "random") == (3, 4, pytest.approx(10 / 16))
    assert standings.cells_with_less_area("random", "gp") == (1, 4, pytest.approx(10 / 16))
    assert standings.cells_with_less_area("gp", "gp") == (0, 0, 1.0)


def test_what_a_search_returns_is_that_of_its_last_trial_until_then() -> None:
    """The measured best is the first trial, then the second, then the third; the last two are slower than the third."""
    lucky = [
        row([1.5, 1.0, 1.3, 1.2, 1.1], seed, measured_seconds=[1.5, 1.1, 0.9, 1.2, 0.95], best_seconds=best)
        for seed, best in enumerate([1.0, 1.0, 0.5])
    ]
    standings = Standings.of(curves_of(lucky), baselines=True)
    regrets = [standings.median_regret_of_returned("random", trials) for trials in (1, 2, 3, 5, 40)]
    assert [regret.value for regret in regrets] == pytest.approx([0.5, 0.0, 0.3, 0.3, 0.3])
    assert regrets[-1].high == pytest.approx(1.3 / 0.5 - 1)


def test_only_those_that_are_wanted_take_part() -> None:
    assert STANDINGS.only(lambda name: name == "gp").searchers == ["gp"]


def test_cells_are_undecided_where_no_baseline_is_close_to_the_best() -> None:
    rows = [*contest("a@b", "random", [4, 4, 4]), *(row([1.0], cell="c@d", baseline_seconds=1.04) for _ in range(3))]
    standings = Standings.of(curves_of(rows), baselines=True)
    assert standings.cells == ["a@b", "c@d"]
    assert standings.on_open_cells().cells == ["a@b"]


def test_the_best_rival_is_the_one_that_guided_search_beats_by_least() -> None:
    rows = [
        *contest("a@b", "guided", [2, 2, 2]),
        *contest("c@d", "guided", [1, 1, 1]),
        *contest("a@b", "gp", [2, 2, 2]),
        *contest("c@d", "gp", [6, 6, 6]),
        *contest("a@b", "tpe", [4, 4, 4]),
        *contest("c@d", "tpe", [4, 4, 4]),
    ]
    table = targets_table(Standings.of(curves_of(rows), baselines=True), "targets", "Targets")
    (_, near, median), (rival, half, times) = table.rows
    assert (near, median) == ("yes", "1.5 [1, 2]")
    assert (rival, half) == ("at most half the trials of the best rival, gp", "yes")
    assert times.startswith("2.45 [")


def test_an_ablation_tells_how_much_more_a_search_needs_without_a_part() -> None:
    """The whole needs 2 trials instead of 4, and 3 instead of 6 (never, in 5): areas of 1 instead of 3, 2 instead of
    5."""
    rows = [
        *contest("a@b", "guided-replay", [2, 2, 2]),
        *contest("a@b", "guided-analytic", [4, 4, 4]),
        *contest("c@d", "guided-replay", [3, 3, 3]),
        *contest("c@d", "guided-analytic", [6, 6, 6]),
    ]
    table = ablations_table(Standings.of(curves_of(rows), baselines=True), "ablations", "Ablations")
    (line,) = [dict(zip(table.header, cells, strict=True)) for cells in table.rows]
    assert (line["to 5 %, whole"], line["to 5 %, without"]) == ("2.5 [2, 3]", ">5 [4, >5]")
    assert line["more trials"] == "2.00 [2.00, 2.00]"
    assert line["more area"] == "2.74 [2.74, 2.74]"
    assert line["cells"] == "2 of 2 (p 0.5)"


def test_hit_rates_are_of_the_trials_that_a_searcher_chose() -> None:
    """Baselines, repeated timings and missing trials are neither hits nor misses, although one baseline is faster."""
    purposes = ["baseline", "remeasure", "search", "search", "search"]
    rows = [
        row([1.5, 3.0, 1.5, 3.0, 3.0], purposes=purposes),
        row([3.0, 1.5, 3.0, 1.5], seed=1, purposes=purposes[:4]),
        row([1.5, 1.5], searcher=IDEAL),
    ]
    facts = [{"cell": "a@b", "hit_share": 0.125}, {"cell": "elsewhere", "hit_share": 0.5}]
    table = hits_table(Standings.of(curves_of(rows), baselines=True), facts, "hits", "given")
    assert table.rows == [("random", in_percent(share_of(2, 5)), "5")]
    assert "In the pools, 12.5 % of the trials are hits." in table.about


def test_a_replayed_search_costs_the_trials_that_it_is_charged_and_its_thinking_about_them() -> None:
    """40 of 80 trials cost half of 8 s of thinking, and 400, 800 or 1200 s until the 40th trial, the first fast one."""
    rows = [
        row(
            [2.0] * 39 + [1.0] * 41,
            seed,
            searcher="guided",
            trials=80,
            clock_seconds=[seconds * number for number in range(1, 81)],
            search_seconds=8.0,
        )
        for seed, seconds in enumerate([10.0, 20.0, 30.0])
    ]
    fact = {"cell": "a@b", "model": "bert-mini", "replicas": 4, "batch_size": 8, "baseline_seconds": 2.0}
    unknown = fact | {"cell": "c@d", "model": "of no known data"}
    standings = Standings.of(curves_of([*rows, *(search | {"cell": "c@d"} for search in rows)]), baselines=True)
    (cost,) = replay_costs(standings, [fact, unknown, fact | {"cell": "not searched"}])
    assert (cost.cell, cost.trials, cost.baseline_seconds, cost.examples_a_step) == ("a@b", 40, 2.0, 32)
    spent = cost.search_seconds
    assert (spent.value, spent.low, spent.high) == (804.0, 404.0, 1204.0)
    assert cost.speedup.value == 2.0

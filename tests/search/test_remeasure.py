"""The verdict: the winner, its interval, and reservations about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from autosync.baselines import BASELINES
from autosync.errors import TrialError
from autosync.search.protocol import Proposal
from autosync.search.verdict.judging import interleave, judge, losers
from autosync.spec import RuntimeRecord
from autosync.stats.paired import ERROR
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(2)
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
SLOW, USUAL, OTHER, FOUND = (
    BASELINES[name](MODEL, CLUSTER)
    for name in ("all_reduce_per_variable", "parameter_server", "byteps", "partitioned_all_reduce")
)
LABELS = {SLOW.digest: "slow", USUAL.digest: "usual", OTHER.digest: "other", FOUND.digest: "found"}
BASELINE_DIGESTS = {SLOW.digest, USUAL.digest}


def record(strategy, steps) -> RuntimeRecord:
    trial = timed(SPACE_HERE, Proposal(strategy, LABELS[strategy.digest]), truth())
    return replace(trial, step_seconds=tuple(map(float, steps)))


def rounds_of(seconds: dict, count: int = 5, drift: float = 0.0) -> list[list[RuntimeRecord]]:
    """Return rounds in which strategies take `seconds`, plus or minus 1 %; each round is slower than the last by
    `drift`.
    """
    generator = np.random.default_rng(7)
    return [
        [
            record(strategy, median * (1 + drift) ** turn * np.exp(0.01 * generator.standard_normal(20)))
            for strategy, median in seconds.items()
        ]
        for turn in range(count)
    ]


def failed(good: RuntimeRecord) -> RuntimeRecord:
    return replace(good, outcome="failed", reason="a worker died", step_seconds=())


def judged(rounds):
    return judge(rounds, BASELINE_DIGESTS)


def test_turns_are_taken():
    order = [(turn, name) for turn, name in interleave("ABC", 2)]
    assert order == [(0, "A"), (0, "B"), (0, "C"), (1, "A"), (1, "B"), (1, "C")]


def test_a_clearly_faster_candidate_wins():
    verdict = judged(rounds_of({SLOW: 0.3, USUAL: 0.2, OTHER: 0.19, FOUND: 0.1}))
    assert (verdict.winner, verdict.winner_label, verdict.baseline_label) == (FOUND, "found", "usual")
    assert verdict.speedup == pytest.approx(2.0, rel=0.02)
    assert 1.9 < verdict.interval[0] < verdict.speedup < verdict.interval[1] < 2.1
    assert verdict.beyond_noise
    assert (verdict.rounds, verdict.note) == (5, "")


def test_drift_that_both_share_does_not_hide_a_difference():
    verdict = judged(rounds_of({USUAL: 0.2, FOUND: 0.18}, drift=0.15))
    assert verdict.beyond_noise
    assert verdict.winner == FOUND


def test_a_candidate_within_the_noise_leaves_the_baseline_the_winner():
    verdict = judged(rounds_of({USUAL: 0.2, FOUND: 0.1999}))
    assert verdict.winner == verdict.baseline == USUAL
    assert verdict.candidate == FOUND
    assert not verdict.beyond_noise
    assert verdict.interval[0] < 1.0


def test_a_slower_candidate_loses():
    verdict = judged(rounds_of({USUAL: 0.2, FOUND: 0.3}))
    assert verdict.winner == USUAL
    assert verdict.interval[1] < 1.0


def test_a_candidate_that_failed_in_most_rounds_is_out_and_one_that_failed_once_is_not():
    rounds = rounds_of({USUAL: 0.2, OTHER: 0.15, FOUND: 0.1})
    rounds[2][2] = failed(rounds[2][2])
    verdict = judged(rounds)
    assert (verdict.winner, verdict.note) == (FOUND, "Both were timed in 4 of 5 rounds.")
    for turn in (0, 1):
        rounds[turn][2] = failed(rounds[turn][2])
    assert judged(rounds).winner == OTHER


def test_the_best_of_several_candidates_is_held_to_a_wider_interval():
    slower = rounds_of({USUAL: 0.2, FOUND: 0.1, OTHER: 0.15})
    alone, among = judged([turn[:2] for turn in slower]), judged(slower)
    assert among.interval[0] < alone.interval[0] < alone.interval[1] < among.interval[1]
    dropped = [turn[:2] if number else turn for number, turn in enumerate(slower)]
    assert judged(dropped).interval[0] < alone.interval[0], "a candidate that was dropped still counts as compared"


def test_one_of_two_looks_is_held_to_a_wider_interval():
    rounds = rounds_of({USUAL: 0.2, FOUND: 0.1})
    once, twice = judged(rounds), judge(rounds, BASELINE_DIGESTS, ERROR / 2)
    assert twice.interval[0] < once.interval[0] < once.interval[1] < twice.interval[1]
    assert (once.is_promising, twice.beyond_noise) == (False, True)


def test_without_a_candidate_left_the_baseline_wins():
    rounds = [[first, failed(second)] for first, second in rounds_of({USUAL: 0.2, FOUND: 0.1})]
    verdict = judged(rounds)
    assert (verdict.winner, verdict.candidate, verdict.speedup) == (USUAL, None, 1.0)
    assert not verdict.beyond_noise
    assert verdict.note == "No candidate was timed in more than half of the rounds."


def test_without_a_candidate_in_the_finals_it_is_said_why():
    verdict = judged([[first] for first, _ in rounds_of({USUAL: 0.2, FOUND: 0.1})])
    assert (verdict.winner, verdict.candidate) == (USUAL, None)
    assert verdict.note == "No candidate finished all steps in the search, so none was re-measured."


def test_a_baseline_that_failed_in_a_round_is_compared_in_the_others():
    rounds = rounds_of({USUAL: 0.2, FOUND: 0.1})
    rounds[0][0] = failed(rounds[0][0])
    verdict = judged(rounds)
    assert (verdict.winner, verdict.rounds) == (FOUND, 4)
    assert verdict.note == "Both were timed in 4 of 5 rounds."


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_rounds_prove_nothing_and_have_no_interval(count: int):
    verdict = judged(rounds_of({USUAL: 0.2, FOUND: 0.1}, count=count))
    assert (verdict.winner, verdict.candidate, verdict.interval) == (USUAL, FOUND, None)
    assert judged(rounds_of({USUAL: 0.2, FOUND: 0.1}, count=3)).winner == FOUND


def test_a_gain_in_every_one_of_twelve_rounds_is_proven_however_uneven_it_is():
    """Student's interval is 0.91 to 1.49 here; chance alone favours one side in all of 12 rounds once in 4096 times."""
    gains = [0.011, 0.016, 0.02, 0.026, 0.031, 0.037, 0.045, 0.06, 0.075, 0.09, 0.21, 1.185]
    rounds = [
        [record(USUAL, [0.2 * np.exp(gain)] * 5), record(FOUND, [0.2] * 5), record(OTHER, [0.25] * 5)] for gain in gains
    ]
    logs = np.array(gains)
    margin = student.ppf(1 - 0.05 / 4, 11) * logs.std(ddof=1) / np.sqrt(12)
    assert np.exp(logs.mean() - margin) == pytest.approx(0.91, abs=0.02)
    assert np.exp(logs.mean() + margin) == pytest.approx(1.49, abs=0.03)
    for looks in (1, 2):
        verdict = judge(rounds, BASELINE_DIGESTS, ERROR / looks)
        assert verdict.beyond_noise
        assert verdict.winner == FOUND


def test_baselines_are_compared_in_rounds_that_both_ran():
    """The machine slows down after round 2, when the slower baseline no longer runs."""
    rounds = rounds_of({SLOW: 0.21, USUAL: 0.2, FOUND: 0.1}, count=6, drift=0.3)
    rounds = [turn if number < 2 else turn[1:] for number, turn in enumerate(rounds)]
    assert judged(rounds).baseline == USUAL


def test_what_is_surely_slower_than_another_is_beaten():
    rounds = rounds_of({USUAL: 0.2, SLOW: 0.3, OTHER: 0.2002, FOUND: 0.1}, count=4)
    names = [USUAL.digest, SLOW.digest, OTHER.digest]
    assert losers(rounds, names, 0.005, 3) == {SLOW.digest}
    assert losers(rounds, [*names, FOUND.digest], 0.005, 3) == set(names)
    assert losers(rounds[:2], names, 0.005, 3) == set()


def test_without_a_measured_baseline_there_is_no_verdict():
    rounds = [[failed(first), second] for first, second in rounds_of({USUAL: 0.2, FOUND: 0.1})]
    with pytest.raises(TrialError, match="needs a re-measured baseline, but every baseline failed"):
        judged(rounds)

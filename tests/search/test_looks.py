"""Looks at finals: their rounds, and that their errors add up to no more than the stated chance."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.numeric import FloatArray
from autosync.search.verdict.looks import Looks
from autosync.stats.paired import ERROR
from studies.by_hand.bench_judging import NOISES, before, now


@pytest.mark.parametrize("rounds", [1, 2, 4, 6, 9])
def test_errors_of_all_looks_add_up_to_the_whole_wherever_finals_end(rounds: int) -> None:
    looks = Looks(rounds)
    for end in range(3, looks.most + 1):
        errors = [looks.error(done, is_last=done == end) for done in range(1, end + 1)]
        assert sum(filter(None, errors)) == pytest.approx(ERROR), end
        assert errors[:2] == [None, None], "fewer than three rounds have no interval"


def test_six_rounds_are_looked_at_six_times() -> None:
    looks = Looks(6)
    assert [done for done in range(1, 19) if looks.error(done, is_last=False)] == [3, 4, 6, 9, 12, 18]
    assert looks.error(18, is_last=False) == pytest.approx(ERROR / 2)


@pytest.mark.parametrize("kind", NOISES)
def test_without_a_difference_a_gain_is_seldom_proven(kind: str) -> None:
    """400 finals of three candidates and a baseline, each proven with a chance of 2.5 % or less.

    More than 20 proven finals occur once in 900 times at 2.5 %, and 99 times in 100 at 8 %.
    """
    generator = np.random.default_rng(5)
    assert sum(now(NOISES[kind](generator, 4, 18))[0] for _ in range(400)) <= 20


def slower(logs: FloatArray, by: float) -> FloatArray:
    """Return the log medians with `by` added for the last strategy, the baseline."""
    return np.vstack([logs[:-1], logs[-1:] + by])


def test_a_gain_is_proven_at_least_as_often_as_with_two_looks_and_in_fewer_rounds() -> None:
    generator = np.random.default_rng(6)
    drawn = [slower(NOISES["normal"](generator, 2, 18), 0.03) for _ in range(200)]
    (then, then_rounds), (since, rounds) = (np.mean([way(logs) for logs in drawn], axis=0) for way in (before, now))
    assert since >= then > 0.7
    assert rounds < then_rounds

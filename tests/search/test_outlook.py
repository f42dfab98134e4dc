"""The gain that a search expects of another round, and how it learns that it expects too much."""

from __future__ import annotations

from itertools import pairwise

import pytest

from autosync.search.guided.outlook import GOOD_FAITH, ROUNDS, Outlook


def test_before_any_round_nothing_is_expected() -> None:
    assert Outlook().expected_gain() is None


def test_the_first_rounds_promise_is_believed() -> None:
    outlook = Outlook()
    outlook.begin(-2.0, 0.03)
    assert outlook.expected_gain() == pytest.approx(0.03, rel=0.02)


def test_a_promise_that_never_comes_true_is_believed_less_with_every_round() -> None:
    outlook, gains = Outlook(), []
    for _ in range(ROUNDS + 5):
        outlook.begin(-2.0, 0.03)
        gains.append(outlook.expected_gain() or 0.0)
    assert all(later < earlier for earlier, later in pairwise(gains[: ROUNDS + 1]))
    assert gains[-1] == pytest.approx(0.03 * GOOD_FAITH / (ROUNDS * 0.03 + GOOD_FAITH), rel=0.02)
    assert gains[-1] == gains[-2], "older rounds do not count"


def test_promises_that_come_true_are_believed_as_they_are() -> None:
    outlook = Outlook()
    for number in range(8):
        outlook.begin(-2.0 - 0.03 * number, 0.03)
    assert outlook.expected_gain() == pytest.approx(0.03, rel=0.02)


def test_it_goes_on_from_what_it_has_kept() -> None:
    outlook = Outlook()
    outlook.begin(None, 0.2)
    assert outlook.expected_gain() is None, "there is no leader"
    outlook.begin(-1.0, 0.1)
    outlook.begin(-1.1, 0.1)
    restored = Outlook(outlook.rounds())
    assert (restored.round, restored.expected_gain()) == (3, outlook.expected_gain())

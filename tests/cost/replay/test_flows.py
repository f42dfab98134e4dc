"""Rates are max-min fair: a flow can only become faster at the cost of a flow that is not faster."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.cost.replay.flows import last_arrival, max_min_rates

ONE = np.ones(1)


def test_flows_over_one_link_have_equal_shares() -> None:
    rates = max_min_rates(np.ones((4, 1), dtype=bool), np.array([8.0]), np.ones(4))
    assert rates.tolist() == [2.0] * 4


def test_a_flow_held_back_on_one_link_leaves_its_share_of_another_to_the_rest() -> None:
    # Bertsekas and Gallager's example: links of rate 1; the long flow and two other flows share the first link.
    crosses = np.array([[True, True], [True, False], [True, False], [False, True]])
    rates = max_min_rates(crosses, np.ones(2), np.ones(4))
    assert rates.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])


def test_equal_flows_are_counted() -> None:
    crosses = np.array([[True], [True]])
    assert max_min_rates(crosses, np.array([10.0]), np.array([4.0, 1.0])).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("seed", range(5))
def test_every_flow_has_a_full_link_on_which_none_is_faster(seed: int) -> None:
    generator = np.random.default_rng(seed)
    crosses = generator.random((12, 6)) < 0.35
    crosses[np.arange(12), generator.integers(0, 6, 12)] = True
    capacity = generator.uniform(1, 10, 6)
    rates = max_min_rates(crosses, capacity, np.ones(12))
    load = rates @ crosses
    assert (load <= capacity * (1 + 1e-9)).all()
    for flow in range(12):
        full = [link for link in np.flatnonzero(crosses[flow]) if load[link] >= capacity[link] * (1 - 1e-9)]
        assert any(rates[flow] >= rates[crosses[:, link]].max() * (1 - 1e-9) for link in full)


def test_when_a_flow_has_arrived_the_others_become_faster() -> None:
    seconds = last_arrival([[0], [0]], np.array([1.0, 3.0]), np.ones(2), np.array([1.0]))
    assert seconds == pytest.approx(4.0)


def test_fair_flows_can_take_longer_than_their_busiest_link_alone() -> None:
    # The second flow shares the first link until the first flow has arrived, and leaves part of the second link idle.
    routes, capacity = [[0], [0, 1]], np.array([2.0, 1.5])
    seconds = last_arrival(routes, np.array([1.0, 2.0]), np.ones(2), capacity)
    assert seconds == pytest.approx(1.0 + 1.0 / 1.5)
    assert seconds > max((1.0 + 2.0) / 2.0, 2.0 / 1.5)


def test_nothing_to_send_takes_no_time() -> None:
    assert last_arrival([[0]], np.zeros(1), ONE, ONE) == 0.0

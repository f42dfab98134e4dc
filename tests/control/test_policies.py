"""Policies of a cut-off: the replica counts that they wait for, on synthetic times."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autosync.control import Controller, controller_of
from autosync.control.expected import elfving
from autosync.control.learned import LearnedTimeController
from autosync.control.run_times import CensoredTimes, RunTimes
from autosync.control.window import best_count
from autosync.errors import SpecError
from autosync.numeric import FloatArray
from autosync.spec import CutOff, Discipline, StepReport, Strategy
from autosync.spec.discipline import POLICIES
from studies.literature.waiting import NAMES, alike, count_of, last_replica_slow, simulate_cut_off, slow_rack


def gradients_a_second(waits: CutOff, times: FloatArray) -> float:
    return simulate_cut_off(waits, times).rate


def over_the_best_count(waits: CutOff, make: Callable[[np.random.Generator, int], FloatArray]) -> float:
    shares = []
    for seed in range(3):
        times = make(np.random.default_rng(seed), 1500)
        best = max(gradients_a_second(CutOff(count), times) for count in (1, 2, 3, 4))
        shares.append(gradients_a_second(waits, times) / best)
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("slower", "count"),
    [(1.2, 4), (1.5, 4), (2.0, 4), (2.5, 4), (2.7, 3), (2.8, 3), (3.0, 1), (4.0, 1), (6.0, 2)],
)
def test_elfving_waits_for_all_but_the_very_slow_and_then_for_one(slower: float, count: int) -> None:
    """Three replicas take a second, the fourth takes `slower` times as long (systems.md 2.6)."""
    times = np.array([1.0, 1.0, 1.0, slower])
    assert best_count(elfving(times, 4)) == count


@pytest.mark.parametrize(
    ("policy", "make", "least"),
    [
        ("filter", slow_rack, 1.25),
        ("filter", alike, 0.97),
        ("filter", last_replica_slow, 0.93),
        ("learned", slow_rack, 1.2),
        ("learned", alike, 0.96),
        ("learned", last_replica_slow, 0.93),
        ("bandit", last_replica_slow, 0.93),
        ("bandit", alike, 0.9),
        ("empirical", last_replica_slow, 0.93),
        ("empirical", slow_rack, 1.05),
    ],
)
def test_a_policy_counts_as_many_gradients_a_second_as_the_best_fixed_count(
    policy: str, make: Any, least: float
) -> None:
    assert over_the_best_count(CutOff(policy=policy), make) >= least


@pytest.mark.parametrize("policy", ["empirical", "elfving", "learned"])
def test_a_time_that_was_not_seen_is_over_the_wait_and_to_take_it_for_any_costs(policy: str) -> None:
    truncated, naive = (
        over_the_best_count(CutOff(policy=policy, imputes=imputes), last_replica_slow)
        for imputes in ("truncated", "naive")
    )
    assert truncated > naive


def progress_a_second(waits: CutOff, examples: int, noise: float = 7.3) -> float:
    """The progress a second of steps whose gradients are over `examples` examples and have the noise scale `noise`.

    The squared norm of the expected gradient is 1, so the noise scale is the trace of an example's covariance.
    """
    controller = controller_of(Strategy(NAMES, (), Discipline(waits=waits)))
    assert controller is not None
    draw, seconds, gained = np.random.default_rng(1), 0.0, 0.0
    for row in alike(draw, 1500):
        decision = controller.decide()
        assert decision.first is not None
        order = np.argsort(row, kind="stable")[: decision.first]
        gradients = draw.normal(0, math.sqrt(noise / examples / 100), (4, 100))
        gradients[:, 0] += 1
        mine = gradients[order]
        in_order = {int(replica): float(mine[place] @ mine[place]) for place, replica in enumerate(order)}
        controller.observe(
            StepReport(
                decision,
                1.0,
                examples=tuple(examples if replica in in_order else None for replica in range(4)),
                square_norms=tuple(in_order.get(replica) for replica in range(4)),
                mean_square_norm=float(mine.mean(0) @ mine.mean(0)),
                arrivals=tuple(float(row[replica]) if replica in in_order else None for replica in range(4)),
            )
        )
        seconds += float(row[order[-1]])
        gained += 1 / (1 + noise / (decision.first * examples))
    return gained / seconds


@pytest.mark.parametrize(("examples", "over_all"), [(64, 1.4), (4, 1.0)])
def test_gain_waits_for_fewer_where_one_gradient_is_nearly_as_good_as_four(examples: int, over_all: float) -> None:
    """With the noise of digits (disciplines.md 2.4), 1.73 and 1.15 times the progress of waiting for all can be had."""
    gain, every = (progress_a_second(waits, examples) for waits in (CutOff(policy="gain"), CutOff(4)))
    best = max(progress_a_second(CutOff(count), examples) for count in (1, 2, 3, 4))
    assert gain >= over_all * every
    assert gain >= 0.93 * best


@pytest.mark.parametrize("policy", POLICIES)
def test_all_are_waited_for_at_first_and_no_step_without_arrivals_is_learnt_from(policy: str) -> None:
    controller = controller_of(Strategy(NAMES, (), Discipline(waits=CutOff(policy=policy))))
    assert controller is not None
    decision = controller.decide()
    assert decision.first == 4
    controller.observe(StepReport(decision, math.nan, examples=(None,) * 4, square_norms=(None,) * 4))
    assert controller.decide() == decision


def test_a_fitted_model_continues_in_another_process() -> None:
    """The model is fitted after 100 and 200 steps, restored after 250, and fitted again after 400."""
    times = slow_rack(np.random.default_rng(4), 450)
    whole, half, rest = (LearnedTimeController(4, truncated=True) for _ in range(3))
    expected = counts(whole, times)
    assert counts(half, times[:250]) == expected[:250]
    rest.restore(json.loads(json.dumps(half.state())))
    assert counts(rest, times[250:]) == expected[250:]
    assert len(set(expected[250:])) > 1
    state = half.state()
    for wrong in ({"weights": None}, {"weights": {"noise": [1.0]}}, {"waits": [1.0]}, {"steps": 3}):
        with pytest.raises(SpecError, match="The state of a learned model has"):
            rest.restore(state | wrong)


def test_a_fit_does_not_depend_on_the_number_of_threads() -> None:
    times = slow_rack(np.random.default_rng(4), 1000)
    rows = CensoredTimes.of([tuple(map(float, row)) for row in times], [99.0] * len(times))
    weights = []
    for threads in (1, 2):
        with_threads(threads, lambda: weights.append(fit_model(rows).weights()))
    assert weights[0] == weights[1]


def fit_model(rows: CensoredTimes) -> RunTimes:
    model = RunTimes(4)
    model.fit(rows, 100)
    return model


def with_threads(count: int, work: Callable[[], None]) -> None:
    """Run `work` while torch is set to `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        work()
        assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)


def counts(controller: Controller, times: FloatArray) -> list[int]:
    """The number of replicas that the controller waits for in each step."""
    return [count_of(controller, row)[0] for row in times]

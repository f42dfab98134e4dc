"""The contract of controllers (the same reports lead to the same decisions), and the rule of each controller."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from autosync.control import controller_of
from autosync.control.proportional import within
from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import (
    PLAIN,
    CutOff,
    Decision,
    Discipline,
    Fidelity,
    Loads,
    Probed,
    Rhythm,
    StepReport,
    Strategy,
    TopKTransport,
)
from autosync.spec.discipline import POLICIES

WAYS = TopKTransport("own"), TopKTransport("star", "ring"), TopKTransport("star", "tree")

DISCIPLINES = {
    "a period": Discipline(Rhythm(3)),
    "every step": Discipline(Rhythm(1, averages="gradients")),
    "a period after plain steps": Discipline(Rhythm(3, after=5)),
    "a threshold": Discipline(Rhythm(threshold=0.01)),
    "a quantile": Discipline(Rhythm(quantile=0.5, after=2)),
    "a count": Discipline(waits=CutOff(1)),
    **{policy: Discipline(waits=CutOff(policy=policy)) for policy in POLICIES},
    "a warm-up": Discipline(fidelity=Fidelity((0.5, 0.1), 4)),
    "a count and a warm-up": Discipline(waits=CutOff(1), fidelity=Fidelity((0.5, 0.1), 4)),
    "a kept energy": Discipline(fidelity=Fidelity((1.0, 0.5, 0.1), 4, keeps=0.7)),
    "critical regimes": Discipline(fidelity=Fidelity((0.5, 0.1), 3, changes=0.2)),
    "transports": Discipline(
        fidelity=Fidelity((0.1,), 6, transports=(TopKTransport("own"), TopKTransport("star", "tree")))
    ),
    "a formula": Discipline(fidelity=Fidelity((0.1,), 6, transports=WAYS, probed=Probed(0.1, 9.0))),
    "a formula and a warm-up": Discipline(fidelity=Fidelity((0.5, 0.1), 6, transports=WAYS, probed=Probed(0.1, 9.0))),
    "a knee": Discipline(
        fidelity=Fidelity((0.5, 0.1, 0.01), 6, transports=WAYS, probed=Probed(0.1, 9.0), time_weight=0.6)
    ),
    "shares": Discipline(loads=Loads((2.0, 1.0))),
    "shares that follow": Discipline(loads=Loads((2.0, 1.0), 0.05)),
    "a count and shares that follow": Discipline(waits=CutOff(1), loads=Loads((2.0, 1.0), 0.05)),
}
REPLICAS = ("node0/cpu:0", "node0/cpu:1")


def new(name: str, discipline: Discipline | None = None) -> Controller:
    made = controller_of(Strategy(REPLICAS, (), discipline or DISCIPLINES[name]))
    assert made is not None
    return made


def decisions(controller: Controller, steps: int, first: int = 0) -> list[tuple[Decision, bool]]:
    """The decision before each of `steps` steps, and the answer of `observe` after the step."""
    decided = []
    for number in range(first, first + steps):
        decision = controller.decide()
        assert controller.decide() == decision, "asking changes nothing"
        report = StepReport(
            decision,
            1.0 / (1 + number),
            examples=(8, None if decision.first == 1 else 8),
            square_norms=(2 + math.cos(number), 2 + math.sin(number) if decision.first != 1 else None),
            mean_square_norm=1.5 + math.sin(number),
            arrivals=(1.0 + number % 3, None if decision.first == 1 else 2.0),
            seconds=1.0 + number % 5,
            energies=((1.0, 0.8, 0.6), (1.0, 0.7, 0.5)) if decision.watches else (),
        )
        decided.append((decision, controller.observe(report)))
    return decided


@pytest.mark.parametrize("name", DISCIPLINES)
class TestContract:
    """To test another controller, add a line to `DISCIPLINES`."""

    def test_the_same_reports_lead_to_the_same_decisions(self, name: str) -> None:
        assert decisions(new(name), 30) == decisions(new(name), 30)

    @pytest.mark.parametrize("done", [0, 1, 5, 11])
    def test_one_restored_in_another_process_goes_on_alike(self, name: str, done: int) -> None:
        whole, first, second = (new(name) for _ in range(3))
        expected = decisions(whole, 30)
        assert decisions(first, done) == expected[:done]
        second.restore(json.loads(json.dumps(first.state())))
        assert decisions(second, 30 - done, done) == expected[done:]

    @pytest.mark.parametrize(
        "document",
        [
            {"apart": "1"},
            {"apart": -1},
            {"apart": 99},
            {"apart": 0, "more": 1},
            {"smoothed": 1},
            {"smoothed": [1.0]},
            {"smoothed": [1.0, "2"]},
            {"smoothed": [1.0, -2.0]},
            {"first": 1},
            {"parts": [{}]},
            {"parts": [{}, {"done": -1}]},
            {"done": -1},
            {"levels": [1.0]},
            {"levels": [1.0, "2"]},
            {"steps": 1, "rows": [[1.0]]},
            {"steps": -1, "rows": []},
            {"paid": [1.0], "tries": [1.0]},
            {"paid": [1.0, -1.0], "tries": [1.0, 1.0]},
            {"smoothed": [], "changes": [-1.0]},
            {"smoothed": [], "left": -1},
            {"apart": 0, "left": -1},
            {"done": 1, "shares": [1.0]},
            {"ratio": 7, "done": 1},
            {"ratio": 0, "done": 1, "sum": "1"},
            {"shares": [0.5, 0.5], "times": [[1.0]]},
            {"shares": [0.5, 0.6], "times": []},
            {"chosen": 5, "done": 0, "seconds": [[], []]},
            {"chosen": 0, "done": 0, "seconds": [[-1.0], []]},
            {"window": {}, "steps": -1, "signal": 1.0, "noise": 1.0, "examples": 1.0},
        ],
    )
    def test_another_state_is_refused_in_a_sentence(self, name: str, document: dict[str, Any]) -> None:
        with pytest.raises(SpecError, match=r"\.$"):
            new(name).restore(document)


def test_a_plain_strategy_needs_no_controller() -> None:
    assert controller_of(Strategy(REPLICAS, (), PLAIN)) is None


def test_replicas_meet_in_every_third_step_of_a_period_of_three() -> None:
    meets = [decision.meets for decision, _ in decisions(new("a period"), 7)]
    assert meets == [False, False, True, False, False, True, False]
    assert all(decision.meets for decision, _ in decisions(new("every step"), 4))


def test_replicas_meet_when_the_smoothed_norm_of_any_gradient_changes() -> None:
    def meets(threshold: float, *norms: tuple[float, float]) -> list[bool]:
        controller = new("", Discipline(Rhythm(threshold=threshold)))
        return [controller.observe(StepReport(controller.decide(), 1.0, square_norms=pair)) for pair in norms]

    # With two replicas a step has weight 0.02: from 1 to 2 the smoothed norm changes by 0.02 of itself.
    assert meets(0.0199, (1, 1), (1, 1), (1, 2), (1, 1.02)) == [True, False, True, False]
    assert meets(0.0201, (1, 1), (1, 1), (1, 2)) == [True, False, False]
    assert meets(0.0, (1, 1), (1, 1)) == [True, True], "threshold 0: every step"
    assert meets(0.5, (1, 1), (1, math.nan), (1, 1)) == [True, True, True], "a norm that is not a number is a change"
    assert meets(0.5, (0, 1), (0, 1)) == [True, True], "a norm after a gradient of zero is a change"


def test_a_count_waits_for_as_many_in_every_step() -> None:
    assert all(decision == Decision(first=1) for decision, _ in decisions(new("a count"), 4))
    assert new("a count").state() == {}


@pytest.mark.parametrize("name", ["a period", "a threshold"])
def test_an_empty_state_is_none_of_a_rhythms(name: str) -> None:
    with pytest.raises(SpecError, match=r"\.$"):
        new(name).restore({})


def test_replicas_synchronize_in_every_step_before_a_rhythm_begins() -> None:
    meets = [decision.meets for decision, _ in decisions(new("a period after plain steps"), 9)]
    assert meets == [True] * 5 + [False, False, True, False]
    controller = new("", Discipline(Rhythm(threshold=1e9, after=3)))
    assert [after for _, after in decisions(controller, 5)] == [True, True, True, False, False]


def test_a_quantile_lets_replicas_meet_in_its_share_of_steps() -> None:
    draw = np.random.default_rng(0)
    controller = new("", Discipline(Rhythm(quantile=0.9)))
    meets = [
        controller.observe(StepReport(controller.decide(), 1.0, square_norms=tuple(draw.lognormal(0, 1, 2))))
        for _ in range(1000)
    ]
    assert all(meets[:10])
    assert 0.07 <= np.mean(meets[200:]) <= 0.13


def test_a_kept_energy_goes_down_while_enough_is_kept_and_up_when_it_is_not() -> None:
    controller = new("", Discipline(fidelity=Fidelity((1.0, 0.1, 0.01), 5, keeps=0.7)))

    def ratios(steps: int, energies: tuple[float, ...]) -> list[int | None]:
        decided = []
        for _ in range(steps):
            decision = controller.decide()
            assert decision.watches
            decided.append(decision.ratio)
            controller.observe(StepReport(decision, 1.0, energies=(energies, energies)))
        return decided

    assert ratios(15, (1.0, 0.9, 0.8)) == [0] * 5 + [1] * 5 + [2] * 5
    assert ratios(60, (1.0, 0.9, 0.2))[-1] == 1, "the share is a smoothed one"
    assert ratios(200, (1.0, 0.2, 0.1))[-1] == 0
    assert ratios(200, (1.0, 0.9, 0.8))[-1] == 2


def test_while_gradients_change_more_is_kept() -> None:
    controller = new("", Discipline(fidelity=Fidelity((0.5, 0.1), 2, changes=0.5)))
    ratios = []
    for square_norm in (100.0, 100.0, 81.0, 81.0, 81.0, 81.0, 9.0, 9.0, 9.0, 9.0, math.nan, 9.0, 9.0, 9.0, 9.0, 9.0):
        decision = controller.decide()
        ratios.append(decision.ratio)
        controller.observe(StepReport(decision, 1.0, mean_square_norm=square_norm))
    # Mean norms of spells: 10, 9, 9, 3, 3, none, 3, 3. Each spell decides the ratio of the next one.
    assert ratios == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0]
    assert controller.decide().ratio == 1


def test_loads_follow_speeds_and_let_small_changes_be() -> None:
    controller = new("", Discipline(loads=Loads((1.0, 1.0), 0.05)))

    def run(steps: int, speeds: tuple[float, float], jitter: float = 0.0) -> list[tuple[float, ...]]:
        draw, decided = np.random.default_rng(0), []
        for _ in range(steps):
            decision = controller.decide()
            assert decision.loads is not None
            decided.append(decision.loads)
            factors = np.exp(draw.normal(0, jitter, 2))
            times = tuple(
                share / speed * factor for share, speed, factor in zip(decision.loads, speeds, factors, strict=True)
            )
            controller.observe(StepReport(decision, 1.0, arrivals=times))
        return decided

    assert run(6, (1.0, 0.25))[-1] == pytest.approx((0.8, 0.2)), "after five steps"
    assert len(set(run(100, (1.0, 0.25), jitter=0.03))) == 1
    exchanged = run(7, (0.25, 1.0))
    assert exchanged[-1] == pytest.approx((0.2, 0.8))
    assert len(set(exchanged)) == 3, "two adjustments"
    controller.observe(StepReport(controller.decide(), 1.0, arrivals=(1.0, None)))
    assert controller.decide().loads == pytest.approx((0.2, 0.8)), "an unseen time changes no share"


def test_loads_stay_within_their_bounds_and_add_up() -> None:
    assert within((1.0, 1.0, 1.0), 0.1, 0.9) == pytest.approx((1 / 3,) * 3)
    assert within((98.0, 1.0, 1.0), 0.1, 0.5) == pytest.approx((0.5, 0.25, 0.25))
    assert within((98.0, 1.5, 0.5), 0.1, 0.9) == pytest.approx((0.8, 0.1, 0.1))
    assert within((5.0, 5.0, 1e-9), 0.2, 0.45) == pytest.approx((0.4, 0.4, 0.2))


def test_the_fastest_transport_is_found_and_another_one_once_that_is_faster() -> None:
    ways = (TopKTransport("own"), TopKTransport("star"), TopKTransport("star", "tree"))
    controller = new("", Discipline(fidelity=Fidelity((0.1,), 20, transports=ways)))

    def run(steps: int, seconds: tuple[float, float, float]) -> list[int]:
        decided = []
        for _ in range(steps):
            decision = controller.decide()
            assert decision.transport is not None
            decided.append(decision.transport)
            controller.observe(StepReport(decision, 1.0, seconds=seconds[decision.transport]))
        return decided

    assert run(32, (3.0, 1.0, 2.0)) == [0] * 4 + [1] * 4 + [2] * 4 + [1] * 20
    assert set(run(32, (0.5, 1.0, 2.0))[12:]) == {0}

"""The contract of controllers: the same reports, the same decisions; and each one's own rule."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from autosync.control import controller_of
from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import PLAIN, CutOff, Decision, Discipline, Fidelity, Loads, Rhythm, StepReport, Strategy

DISCIPLINES = {
    "a period": Discipline(Rhythm(3)),
    "every step": Discipline(Rhythm(1, averages="gradients")),
    "a threshold": Discipline(Rhythm(threshold=0.01)),
    "a count": Discipline(waits=CutOff(1)),
    **{each: Discipline(waits=CutOff(policy=each)) for each in ("elfving", "empirical", "filter", "bandit")},
    "a warm-up": Discipline(fidelity=Fidelity((0.5, 0.1), 4)),
    "a count and a warm-up": Discipline(waits=CutOff(1), fidelity=Fidelity((0.5, 0.1), 4)),
    "shares": Discipline(loads=Loads((2.0, 1.0))),
}
REPLICAS = ("node0/cpu:0", "node0/cpu:1")


def new(name: str, discipline: Discipline | None = None) -> Controller:
    made = controller_of(Strategy(REPLICAS, (), discipline or DISCIPLINES[name]))
    assert made is not None
    return made


def decisions(controller: Controller, steps: int, first: int = 0) -> list[tuple[Decision, bool]]:
    """What it decides before each of so many steps, and after it."""
    found = []
    for number in range(first, first + steps):
        decision = controller.decide()
        assert controller.decide() == decision, "asking changes nothing"
        norms = (2 + math.cos(number), 2 + math.sin(number)) if decision.meets is None else ()
        arrivals = (1.0 + number % 3, None if decision.first == 1 else 2.0) if decision.first else ()
        report = StepReport(decision, 1.0 / (1 + number), norms, arrivals)
        found.append((decision, controller.observe(report)))
    return found


@pytest.mark.parametrize("name", DISCIPLINES)
class TestContract:
    """A controller joins by a line in `DISCIPLINES`."""

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
        return [controller.observe(StepReport(controller.decide(), 1.0, each)) for each in norms]

    # Of two replicas a step weighs 0.02: from 1 to 2 the smoothed norm changes by 0.02 of itself.
    assert meets(0.0199, (1, 1), (1, 1), (1, 2), (1, 1.02)) == [True, False, True, False]
    assert meets(0.0201, (1, 1), (1, 1), (1, 2)) == [True, False, False]
    assert meets(0.0, (1, 1), (1, 1)) == [True, True], "at 0 in every step"
    assert meets(0.5, (1, 1), (1, math.nan), (1, 1)) == [True, True, True], "what is no number is a change"
    assert meets(0.5, (0, 1), (0, 1)) == [True, True], "and what follows a gradient of zero"


def test_a_count_waits_for_as_many_in_every_step() -> None:
    assert all(decision == Decision(first=1) for decision, _ in decisions(new("a count"), 4))
    assert new("a count").state() == {}


@pytest.mark.parametrize("name", ["a period", "a threshold"])
def test_an_empty_state_is_none_of_a_rhythms(name: str) -> None:
    with pytest.raises(SpecError, match=r"\.$"):
        new(name).restore({})

"""The contract of controllers: the same reports, the same decisions; and each one's own rule."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from autosync.control import controller_of
from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import PLAIN, Decision, Discipline, Period, StepReport, Strategy

DISCIPLINES = {"a period": Discipline(Period(3)), "every step": Discipline(Period(1, "gradients"))}


def new(name: str) -> Controller:
    made = controller_of(Strategy(("node0/cpu:0",), (), DISCIPLINES[name]))
    assert made is not None
    return made


def decisions(controller: Controller, steps: int, first: int = 0) -> list[Decision]:
    found = []
    for number in range(first, first + steps):
        found.append(controller.decide())
        assert controller.decide() == found[-1], "asking changes nothing"
        controller.observe(StepReport(found[-1], math.cos(number)))
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

    @pytest.mark.parametrize("document", [{}, {"apart": "1"}, {"apart": -1}, {"apart": 99}, {"apart": 0, "more": 1}])
    def test_another_state_is_refused_in_a_sentence(self, name: str, document: dict[str, Any]) -> None:
        with pytest.raises(SpecError, match=r"\.$"):
            new(name).restore(document)


def test_a_plain_strategy_needs_no_controller() -> None:
    assert controller_of(Strategy(("node0/cpu:0",), (), PLAIN)) is None


def test_replicas_meet_in_every_third_step_of_a_period_of_three() -> None:
    assert [each.meets for each in decisions(new("a period"), 7)] == [False, False, True, False, False, True, False]
    assert all(each.meets for each in decisions(new("every step"), 4))

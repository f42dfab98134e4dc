"""The state of a search, damaged on disk in many ways: each is refused in one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autosync.cost import AnalyticSimulator
from autosync.errors import SpecError
from autosync.search.guided.searcher import GuidedSearch
from autosync.search.protocol import Searcher
from autosync.tune.campaign import restore
from search_spaces.tiny import SPACE
from tests.search.laws import timed, truth
from tests.tune.pretend import CLUSTER, MODEL

NONSENSE: list[Any] = [None, True, -1, 10**60, 1e308, "x", [], [[1]], [{}], {}, {"a": {"b": [1]}}]


def searcher() -> Searcher:
    return GuidedSearch(SPACE.bind(MODEL, CLUSTER), [], 0, AnalyticSimulator())


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    search = searcher()
    for proposal in search.ask(3):
        search.tell(timed(SPACE.bind(MODEL, CLUSTER), proposal, truth()))
    search.ask(1)
    state: dict[str, Any] = json.loads(json.dumps(search.state()))
    return state


def test_the_state_as_it_was_saved_is_restored(state: dict[str, Any]) -> None:
    again = searcher()
    restore(again, state)
    assert json.loads(json.dumps(again.state())) == state


def test_nonsense_in_any_field_of_a_state_is_refused_or_does_no_harm(state: dict[str, Any]) -> None:
    said: list[str] = []
    for field in state:
        for value in NONSENSE:
            broken = searcher()
            try:
                restore(broken, {**state, field: value})
            except SpecError as error:
                said.append(str(error))
            else:
                broken.ask(1)
    assert len(said) > 0.7 * len(state) * len(NONSENSE)
    assert max(map(len, said)) < 500


@pytest.mark.parametrize("field", ["records", "clusters", "queue", "pending", "rounds", "answers"])
def test_nonsense_in_a_list_of_a_state_is_refused(state: dict[str, Any], field: str) -> None:
    for value in NONSENSE[1:]:  # null is an answer that has not arrived yet
        with pytest.raises(SpecError):
            restore(searcher(), {**state, field: [*state[field], value]})

"""Known objects are found by identity, and never confused with each other."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.cost.closed_form import rows as met_objects
from autosync.cost.closed_form.rows import UNMET, MetObjects


def test_equal_objects_are_distinguished() -> None:
    first, second, third = ["a"], ["a"], ["b"]
    met = MetObjects()
    met.add([first], [0])
    met.add([third], [-1])
    np.testing.assert_array_equal(met.numbers_of([third, first, second, first]), [-1, 0, UNMET, 0])


@pytest.mark.thorough
def test_nearly_all_of_many_objects_are_found() -> None:
    met, objects = MetObjects(), [[number] for number in range(20_000)]
    met.add(objects, range(20_000))
    numbers = met.numbers_of(objects)
    found = numbers != UNMET
    np.testing.assert_array_equal(numbers[found], np.flatnonzero(found))
    assert found.mean() > 0.98


def test_an_object_whose_slots_are_taken_is_unknown_and_not_confused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(met_objects, "BITS", 2)
    met, objects = MetObjects(), [[number] for number in range(100)]
    met.add(objects[:50], range(50))
    met.add(objects[50:], range(50, 100))
    numbers = met.numbers_of(objects)
    found = np.flatnonzero(numbers != UNMET)
    assert 2 <= len(found) <= 2 * 2**2
    np.testing.assert_array_equal(numbers[found], found)


def test_when_there_are_too_many_all_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(met_objects, "MOST", 3)
    met, objects = MetObjects(), [[number] for number in range(4)]
    met.add(objects[:3], range(3))
    np.testing.assert_array_equal(met.numbers_of(objects), [0, 1, 2, UNMET])
    met.add(objects[3:], [3])
    np.testing.assert_array_equal(met.numbers_of(objects), [UNMET, UNMET, UNMET, 3])

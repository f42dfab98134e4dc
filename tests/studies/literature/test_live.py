"""Experiments on an emulated cluster, which is made for them and removed afterwards."""

from __future__ import annotations

import os

import pytest

from autosync.errors import BenchError
from autosync.spec import CutOff, Discipline
from studies.literature.live import LiveMeasurement, train_under
from studies.literature.rows import FigureRow
from tests.trials.emulate.clusters import needs_root
from trials.emulate import find
from trials.fleet.lanes import Backend

TWO = "link: 1gbit\npace: {fixed: 30ms}\nnodes: [{count: 2}]\n"


def first_of_two(backend: Backend, cell: str, seed: int) -> list[FigureRow]:
    record = train_under(backend, Discipline(waits=CutOff(1, "stop")), 6, seed)
    return [FigureRow(cell, "first", seed, "gradients", float(sum(record.counted)), "paced", record.cluster.numbers)]


def too_many(backend: Backend, _cell: str, seed: int) -> list[FigureRow]:
    train_under(backend, Discipline(waits=CutOff(3)), 6, seed)
    raise AssertionError


@pytest.mark.thorough
@needs_root
def test_what_was_measured_comes_back_and_what_failed_says_so() -> None:
    measurement = LiveMeasurement(TWO, "digits", f"{__name__}:first_of_two")
    assert measurement.rows("two", 1) == [FigureRow("two", "first", 1, "gradients", 6.0, "paced", "held")]
    with pytest.raises(BenchError, match="The measurement for 'two' ended with status"):
        LiveMeasurement(TWO, "digits", f"{__name__}:too_many").rows("two", 0)
    assert find(f"literature{os.getpid()}") is None

"""A world of run times for cut-offs: nothing computes, the policies are those that training runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.control import Controller, controller_of
from autosync.spec import CutOff, Discipline, StepReport, Strategy

Times = npt.NDArray[np.float64]
REPLICAS = 4
NAMES = tuple(f"node{number}/cpu:0" for number in range(REPLICAS))


def one_slow(draw: np.random.Generator, steps: int) -> Times:
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    times[:, -1] *= 3
    return times


def slow_rack(draw: np.random.Generator, steps: int) -> Times:
    """Two of four are slow together, for fifty steps or so."""
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    slow = False
    for row in times:
        slow = draw.random() >= 0.02 if slow else draw.random() < 0.02
        row[2:] *= 3 if slow else 1
    return times


def alike(draw: np.random.Generator, steps: int) -> Times:
    return np.exp(draw.normal(0, 0.3, (steps, REPLICAS)))


def spikes(draw: np.random.Generator, steps: int) -> Times:
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    times[draw.random(times.shape) < 0.05] *= 5
    return times


def changing_places(draw: np.random.Generator, steps: int) -> Times:
    """One of four is slow, another one every hundred steps."""
    times = np.exp(draw.normal(0, 0.1, (steps, REPLICAS)))
    for begin in range(0, steps, 100):
        times[begin : begin + 100, draw.integers(REPLICAS)] *= 3
    return times


REGIMES: Mapping[str, Callable[[np.random.Generator, int], Times]] = {
    "one slow": one_slow,
    "slow rack": slow_rack,
    "i.i.d.": alike,
    "spikes": spikes,
    "changing places": changing_places,
}


@dataclass(frozen=True)
class Counted:
    """Gradients a second, the mean count, the share of steps with another one, and the median seconds of a decision."""

    rate: float
    mean_count: float
    changes: float
    decision_seconds: float


def count_of(controller: Controller, row: Times) -> tuple[int, float]:
    """Take a step whose passes take what `row` says, where the late stop: nobody sees what they would have taken.

    For how many it waited, and how many seconds deciding and learning took.
    """
    before = time.perf_counter()
    decision = controller.decide()
    decided = time.perf_counter() - before
    assert decision.first is not None
    counts = np.argsort(row, kind="stable")[: decision.first]
    arrivals = tuple(float(each) if replica in counts else None for replica, each in enumerate(row))
    before = time.perf_counter()
    controller.observe(StepReport(decision, 1.0, arrivals=arrivals))
    return decision.first, decided + time.perf_counter() - before


def counted(waits: CutOff, times: Times) -> Counted:
    """What is counted by a cut-off in steps that take these times."""
    controller = controller_of(Strategy(NAMES, (), Discipline(waits=waits)))
    assert controller is not None
    counts, spent = zip(*(count_of(controller, row) for row in times), strict=True)
    seconds = sum(float(np.sort(row)[count - 1]) for row, count in zip(times, counts, strict=True))
    changes = float(np.mean(np.diff(counts) != 0))
    return Counted(sum(counts) / seconds, float(np.mean(counts)), changes, float(np.median(spent)))


def oracle(times: Times) -> float:
    """Gradients a second of who knows each step's times beforehand and counts for the best rate of all steps.

    The largest r for which a choice of counts has a rate of r: in each step the one with the most gradients less r
    times its seconds.
    """
    ordered = np.sort(times, axis=1)
    counts = np.arange(1, times.shape[1] + 1)
    rate = 0.0
    for _ in range(50):
        best = np.argmax(counts - rate * ordered, axis=1)
        now = float(counts[best].sum() / np.take_along_axis(ordered, best[:, None], 1).sum())
        if now <= rate + 1e-12:
            break
        rate = now
    return rate

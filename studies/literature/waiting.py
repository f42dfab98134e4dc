"""Simulated pass times for cut-offs. No gradients are computed; the policies are the same as in training."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autosync.control import Controller, controller_of
from autosync.numeric import FloatArray
from autosync.spec import CutOff, Discipline, StepReport, Strategy

REPLICAS = 4
NAMES = tuple(f"node{number}/cpu:0" for number in range(REPLICAS))


def last_replica_slow(draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw times where the last of four replicas is three times slower."""
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    times[:, -1] *= 3
    return times


def slow_rack(draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw times where two of four replicas are slow together, for about fifty steps at a time."""
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    slow = False
    for row in times:
        slow = draw.random() >= 0.02 if slow else draw.random() < 0.02
        row[2:] *= 3 if slow else 1
    return times


def alike(draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw independent times with the same distribution for all replicas."""
    return np.exp(draw.normal(0, 0.3, (steps, REPLICAS)))


def spikes(draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw times where 5 % of the passes take five times as long."""
    times = np.exp(draw.normal(0, 0.03, (steps, REPLICAS)))
    times[draw.random(times.shape) < 0.05] *= 5
    return times


def changing_places(draw: np.random.Generator, steps: int) -> FloatArray:
    """Draw times where one of four replicas is slow, drawn again every hundred steps."""
    times = np.exp(draw.normal(0, 0.1, (steps, REPLICAS)))
    for begin in range(0, steps, 100):
        times[begin : begin + 100, draw.integers(REPLICAS)] *= 3
    return times


REGIMES: Mapping[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "one slow": last_replica_slow,
    "slow rack": slow_rack,
    "i.i.d.": alike,
    "spikes": spikes,
    "changing places": changing_places,
}


@dataclass(frozen=True)
class CutOffFigures:
    """The figures of a cut-off over many steps."""

    rate: float
    """Gradients applied per second."""
    mean_count: float
    """Mean number of gradients applied per step."""
    changes: float
    """Share of steps whose count differs from that of the step before."""
    decision_seconds: float
    """Median seconds to decide and to learn."""


def count_of(controller: Controller, row: FloatArray) -> tuple[int, float]:
    """Simulate a step with the pass times in `row`; late replicas stop, so the controller does not see their times.

    Returns the number of replicas waited for, and the seconds to decide and to learn.
    """
    before = time.perf_counter()
    decision = controller.decide()
    decided = time.perf_counter() - before
    assert decision.first is not None
    counts = np.argsort(row, kind="stable")[: decision.first]
    arrivals = tuple(float(seconds) if replica in counts else None for replica, seconds in enumerate(row))
    before = time.perf_counter()
    controller.observe(StepReport(decision, 1.0, arrivals=arrivals))
    return decision.first, decided + time.perf_counter() - before


def simulate_cut_off(waits: CutOff, times: FloatArray) -> CutOffFigures:
    """Simulate a cut-off over steps with these pass times."""
    controller = controller_of(Strategy(NAMES, (), Discipline(waits=waits)))
    assert controller is not None
    counts, spent = zip(*(count_of(controller, row) for row in times), strict=True)
    seconds = sum(float(np.sort(row)[count - 1]) for row, count in zip(times, counts, strict=True))
    changes = float(np.mean(np.diff(counts) != 0))
    return CutOffFigures(sum(counts) / seconds, float(np.mean(counts)), changes, float(np.median(spent)))


def oracle(times: FloatArray) -> float:
    """Return the gradients per second of an oracle, which knows all times and chooses counts for the best overall rate.

    The result is the largest r that some choice of counts reaches. For a given r, each step chooses the count with the
    largest number of gradients minus r times its seconds.
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

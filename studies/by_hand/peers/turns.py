"""Runs contenders in turns on one emulated cluster, records the turns, and computes figures from them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from autosync.errors import TrialError
from studies.by_hand.peers.links import busiest_bytes, interface_bytes
from trials.emulate import Host

__all__ = [
    "ENOUGH_TURNS",
    "TimedContender",
    "cpu_seconds_a_step",
    "median_step",
    "spread",
    "step_bytes",
    "turn_of",
    "turns_of",
]

ENOUGH_TURNS = 6
"""Fewest turns for a 95 % interval by order statistics; with fewer turns, the interval is the range."""


@dataclass(frozen=True)
class TimedContender:
    """A contender whose steps are timed in turns with those of other contenders."""

    name: str
    prepare: Callable[[], Any]
    """Sets up and warms up, until steps take their usual time."""
    run: Callable[[int], Sequence[float]]
    """Runs the given number of steps and returns the seconds of each."""
    cpu_seconds: Callable[[], float]
    """Returns the processor seconds of all processes so far."""


Turn = dict[str, Any]


def turn_of(contender: TimedContender, hosts: Sequence[Host], steps: int) -> Turn:
    """Run one turn; return the result of `prepare`, step seconds, and processor seconds and busiest link's bytes a
    step."""
    prepared = contender.prepare()
    carried_before, cpu_before = interface_bytes(hosts), contender.cpu_seconds()
    seconds = list(contender.run(steps))
    cpu_seconds = contender.cpu_seconds() - cpu_before
    return {
        "prepared": prepared,
        "step_seconds": seconds,
        "cpu_seconds_a_step": cpu_seconds / steps,
        "busiest_bytes_a_step": busiest_bytes(carried_before, interface_bytes(hosts)) / steps,
    }


def turns_of(
    contenders: Sequence[TimedContender], hosts: Sequence[Host], count: int, steps: Callable[[TimedContender], int]
) -> tuple[dict[str, list[Turn]], dict[str, str]]:
    """Run `count` turns of each contender (A/B/C/A/B/C...); return turns by name, and reasons of those that cannot
    run."""
    turns: dict[str, list[Turn]] = {contender.name: [] for contender in contenders}
    faults: dict[str, str] = {}
    for number in range(count):
        for contender in contenders:
            if contender.name in faults:
                continue
            try:
                turns[contender.name].append(turn_of(contender, hosts, steps(contender)))
            except TrialError as error:
                faults[contender.name] = str(error)
                del turns[contender.name]
        print(f"turn {number + 1} of {count}", file=sys.stderr, flush=True)
    return turns, faults


def median_step(turns: Sequence[Turn]) -> float:
    """Return the median seconds of a step over all turns."""
    return statistics.median(chain.from_iterable(turn["step_seconds"] for turn in turns))


def cpu_seconds_a_step(turns: Sequence[Turn]) -> float:
    return statistics.median(turn["cpu_seconds_a_step"] for turn in turns)


def step_bytes(turns: Sequence[Turn]) -> float:
    """Return the bytes per step, including all headers, in the busiest direction of a link."""
    return statistics.median(turn["busiest_bytes_a_step"] for turn in turns)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median of one value per turn, or the range with under six turns."""
    from autosync.spec import median_interval

    return median_interval(values)

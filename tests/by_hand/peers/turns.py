"""Contenders taking turns on one emulated cluster: what is written down of each turn, and what is read from them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from autosync.errors import TrialError
from tests.by_hand.peers.links import busiest_bytes, carried
from trials.emulate import Host

__all__ = [
    "ENOUGH_TURNS",
    "Contender",
    "cpu_seconds_a_step",
    "median_step",
    "spread",
    "step_bytes",
    "turn_of",
    "turns_of",
]

ENOUGH_TURNS = 6
"""Turns from which on order statistics can give a 95 % interval; with fewer it is their range."""


@dataclass(frozen=True)
class Contender:
    """Something whose steps are timed in turns with others'.

    `prepare` brings it to where its steps take their usual time, and `run` (steps) gives the seconds of each.
    `cpu_seconds` are those its processes have used so far.
    """

    name: str
    prepare: Callable[[], Any]
    run: Callable[[int], Sequence[float]]
    cpu_seconds: Callable[[], float]


Turn = dict[str, Any]


def turn_of(contender: Contender, hosts: Sequence[Host], steps: int) -> Turn:
    """One turn, in JSON: what `prepare` said, step seconds, processor seconds a step, and the busiest link's bytes."""
    prepared = contender.prepare()
    carried_before, cpu_before = carried(hosts), contender.cpu_seconds()
    seconds = list(contender.run(steps))
    cpu_seconds = contender.cpu_seconds() - cpu_before
    return {
        "prepared": prepared,
        "step_seconds": seconds,
        "cpu_seconds_a_step": cpu_seconds / steps,
        "busiest_bytes_a_step": busiest_bytes(carried_before, carried(hosts)) / steps,
    }


def turns_of(
    contenders: Sequence[Contender], hosts: Sequence[Host], count: int, steps: Callable[[Contender], int]
) -> tuple[dict[str, list[Turn]], dict[str, str]]:
    """`count` turns of each (A/B/C/A/B/C...), by name; and why those left out cannot run."""
    turns: dict[str, list[Turn]] = {each.name: [] for each in contenders}
    faults: dict[str, str] = {}
    for number in range(count):
        for each in contenders:
            if each.name in faults:
                continue
            try:
                turns[each.name].append(turn_of(each, hosts, steps(each)))
            except TrialError as error:
                faults[each.name] = str(error)
                del turns[each.name]
        print(f"turn {number + 1} of {count}", file=sys.stderr, flush=True)
    return turns, faults


def median_step(turns: Sequence[Turn]) -> float:
    """Median seconds over all turns' steps."""
    return statistics.median(chain.from_iterable(turn["step_seconds"] for turn in turns))


def cpu_seconds_a_step(turns: Sequence[Turn]) -> float:
    return statistics.median(turn["cpu_seconds_a_step"] for turn in turns)


def step_bytes(turns: Sequence[Turn]) -> float:
    """Bytes a step, all headers included, that crossed the direction of a link which carried most."""
    return statistics.median(turn["busiest_bytes_a_step"] for turn in turns)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of one value a turn; with under six turns, their range."""
    from autosync.spec import median_interval

    return median_interval(values)

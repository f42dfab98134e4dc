"""The replay itself: tasks that queue for resources in the order in which they are ready, on a heap of events.

A task keeps each resource busy for some seconds, all at the same time, and resources serve first who came first. What
takes long comes in portions, and queues again after each: so tasks that share a link, an uplink or cores take turns,
which is max-min fair as portions become small (each gets an equal share of what it needs most, and what it cannot use
is left to the others), while small tasks go ahead of the rest of large ones. Tasks that go the very same way are in one
line, however, where the next begins when the one before it is through, as messages do between two processes.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.places import Pattern

PORTIONS = 32
"""A portion is this part of the busiest resource's seconds, or more."""
MOST_PORTIONS = 8

FloatArray = npt.NDArray[np.float64]

Observer = Callable[[int, int, float, float], None]


@dataclass(frozen=True, eq=False)
class Tasks:
    """Task t loads places in the `pattern_of[t]`-th of `patterns`, group g of it for `seconds[t][g]`; `chain` (tasks,)
    is how long a task takes with all to itself.

    Of tasks that are ready at the same time the one with the lower `rank` comes first; those of one `line` keep their
    order.
    """

    places: int
    patterns: Sequence[Pattern]
    pattern_of: Sequence[int]
    seconds: Sequence[Sequence[float]]
    chain: FloatArray
    rank: Sequence[int]
    line: Sequence[int]
    successors: Sequence[Sequence[int]]
    waits_for: Sequence[int]

    def total(self) -> FloatArray:
        """The seconds that all tasks together keep each place busy, (places,)."""
        view = array("d", bytes(8 * self.places))
        total = np.frombuffer(view)
        for number, seconds in zip(self.pattern_of, self.seconds, strict=True):
            pattern = self.patterns[number]
            for place, group in pattern.singles:
                view[place] += seconds[group]
            for first, after, group, holes in pattern.runs:
                kept = [view[place] for place in holes]
                total[first:after] += seconds[group]
                for place, before in zip(holes, kept, strict=True):
                    view[place] = before
        return total

    def listed(self) -> Tasks:
        """The same tasks, place by place."""
        return replace(self, patterns=[each.listed() for each in self.patterns])


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times at which each task was ready, began (had all its resources) and ended, in seconds, float64 (tasks,)."""

    ready: FloatArray
    begin: FloatArray
    end: FloatArray


def replayed(tasks: Tasks, observe: Observer | None = None) -> Timeline:
    """Go through all tasks. `observe` is told of every portion: its task, a place, when that begins and ends it."""
    if observe is not None:
        tasks = tasks.listed()
    successors, count = tasks.successors, len(tasks.seconds)
    portions = _portions(tasks)
    ready, begin, end = [0.0] * count, [-1.0] * count, [0.0] * count
    left, chain, waits_for = list(portions), tasks.chain.tolist(), list(tasks.waits_for)
    # NumPy goes through runs, and Python through single places of the same memory: each is slow at the other's.
    free = array("d", bytes(8 * tasks.places))
    in_runs = np.frombuffer(free)
    patterns = [(each.singles, each.runs) for each in tasks.patterns]
    pattern_of, of_tasks = tasks.pattern_of, tasks.seconds
    maximum, longest, add = np.maximum, np.maximum.reduce, np.add
    queue = _Queue(tasks.rank, tasks.line, [each > 1 for each in left])
    for task in range(count):
        if not waits_for[task]:
            queue.put(0.0, task)
    while queue.heap:
        now, _, task = heapq.heappop(queue.heap)
        if not queue.takes(task):
            continue
        first = until = now
        singles, runs = patterns[pattern_of[task]]
        portion = portions[task]
        of_groups = of_tasks[task]
        if portion > 1:
            of_groups = [each / portion for each in of_groups]
        for place, group in singles:
            seconds = of_groups[group]
            if not seconds:
                continue
            at = free[place]
            if at < now:
                at = now
            elif at > first:
                first = at
            free[place] = then = at + seconds
            if then > until:
                until = then
            if observe is not None:
                observe(task, place, at, then)
        for begins, ends, group, holes in runs:
            seconds = of_groups[group]
            if not seconds:
                continue
            run = in_runs[begins:ends]
            kept = [free[place] for place in holes]
            for place in holes:
                free[place] = now
            maximum(run, now, run)
            at = longest(run).item()
            add(run, seconds, run)
            for place, before in zip(holes, kept, strict=True):
                free[place] = before
            if at > first:
                first = at
            at += of_groups[group]
            if at > until:
                until = at
        if begin[task] < 0:
            begin[task] = first
        left[task] -= 1
        if left[task]:
            queue.put(until, task)
            continue
        queue.leave(task, now, until)
        until = max(until, begin[task] + chain[task])
        end[task] = until
        for following in successors[task]:
            waits_for[following] -= 1
            ready[following] = max(ready[following], until)
            if not waits_for[following]:
                queue.put(ready[following], following)
    return Timeline(np.array(ready), np.array(begin), np.array(end))


@dataclass
class _Queue:
    """Tasks by when they are ready; those that wait in a line for the one before them are put aside."""

    rank: Sequence[int]
    line: Sequence[int]
    is_long: Sequence[bool]
    heap: list[tuple[float, int, int]] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    aside: dict[int, deque[int]] = field(default_factory=dict)

    def put(self, seconds: float, task: int) -> None:
        heapq.heappush(self.heap, (seconds, self.rank[task], task))

    def takes(self, task: int) -> bool:
        """Whether it is the task's turn; if not, the task is put aside."""
        line = self.line[task]
        if line in self.first:
            if self.first[line] != task:
                self.aside.setdefault(line, deque()).append(task)
                return False
        elif self.is_long[task]:
            self.first[line] = task
        return True

    def leave(self, task: int, now: float, until: float) -> None:
        """Note that the task is through; the next in its line, if there is one, comes at once, or after a long one."""
        line = self.line[task]
        if self.first.get(line) != task:
            return
        waiting = self.aside.get(line)
        if waiting:
            self.first[line] = waiting.popleft()
            self.put(until if self.is_long[task] else now, self.first[line])
        else:
            del self.first[line]


def _portions(tasks: Tasks) -> list[int]:
    """The number of portions in which each task comes."""
    busiest = float(tasks.total().max(initial=0.0))
    if busiest <= 0:
        return [1] * len(tasks.seconds)
    longest = np.array([max(seconds) if seconds else 0.0 for seconds in tasks.seconds])
    wanted = np.ceil(longest * PORTIONS / busiest)
    found: list[int] = np.clip(wanted, 1, MOST_PORTIONS).astype(np.intp).tolist()
    return found

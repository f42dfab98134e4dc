"""The event loop of the replay: tasks queue for resources in the order in which they become ready.

A task keeps each of its resources busy for some seconds, all at the same time, and resources serve tasks first come,
first served. A long task is split into portions and queues again after each portion. So tasks that share a link, an
uplink or cores take turns, which approaches max-min fairness as portions become small (a task gets an equal share of
the resource it needs most, and the unused rest is left to the others), and small tasks overtake the rest of large ones.
However, tasks that load the same path are in one line, where a task begins when the previous task has ended, like
messages between two processes.

If tasks have an urgency, a resource that becomes free serves the most urgent task that waits for it (`urgent.py`).
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autosync.cost.replay.places import NOTHING, Pattern
from autosync.cost.replay.urgent import UrgentQueue
from autosync.numeric import FloatArray

PORTIONS = 32
"""A portion is at least the busiest resource's seconds divided by this number."""
MOST_PORTIONS = 8

Observer = Callable[[int, int, float, float], None]


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a replay, numbered from 0."""

    places: int
    """The number of places."""

    patterns: Sequence[Pattern]

    pattern_of: Sequence[int]
    """The number of each task's pattern."""

    seconds: Sequence[Sequence[float]]
    """The seconds for which each task keeps the groups of its pattern busy."""

    chain: FloatArray
    """The minimum seconds of each task, on idle resources, (tasks,)."""

    rank: Sequence[int]
    """Among tasks that are ready at the same time, the task with the lower rank comes first."""

    line: Sequence[int]
    """The line of each task. Tasks of one line keep their order."""

    successors: Sequence[Sequence[int]]
    """The tasks that wait for each task."""

    waits_for: Sequence[int]
    """The number of tasks that each task waits for."""

    urgency: Sequence[int] | None = None
    """Among tasks that wait for the same resource, the task with the lowest number comes first; None if tasks are
    served first come, first served."""

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

    def without_runs(self) -> Tasks:
        """The same tasks, place by place."""
        return replace(self, patterns=[pattern.without_runs() for pattern in self.patterns])


@dataclass(frozen=True, eq=False)
class Timeline:
    """Seconds at which each task was ready, began (had all its resources) and ended, float64 (tasks,)."""

    ready: FloatArray
    begin: FloatArray
    end: FloatArray


def replay_tasks(tasks: Tasks, observe: Observer | None = None) -> Timeline:
    """Simulate all tasks. `observe` receives every portion at every place: (task, place, begin, end)."""
    if observe is not None:
        tasks = tasks.without_runs()
    successors, count = tasks.successors, len(tasks.seconds)
    portions = _portions(tasks)
    ready, begin, end = [0.0] * count, [-1.0] * count, [0.0] * count
    left, chain, waits_for = list(portions), tasks.chain.tolist(), list(tasks.waits_for)
    # NumPy processes runs, and Python single places, in the same memory: NumPy is slow at single places, and Python at
    # runs.
    free = array("d", bytes(8 * tasks.places))
    in_runs = np.frombuffer(free)
    patterns = [(pattern.singles, pattern.runs) for pattern in tasks.patterns]
    pattern_of, of_tasks = tasks.pattern_of, tasks.seconds
    maximum, longest, add = np.maximum, np.maximum.reduce, np.add
    is_long = [portion > 1 for portion in left]
    queue: _Queue | UrgentQueue = _Queue(tasks.rank, tasks.line, is_long)
    if tasks.urgency is not None:
        queue = UrgentQueue(tasks.urgency, tasks.line, is_long, tasks.patterns, pattern_of, of_tasks, free)
    for task in range(count):
        if not waits_for[task]:
            queue.put(0.0, task)
    while queue.heap:
        now, _, task = heapq.heappop(queue.heap)
        task = queue.take(now, task)
        if task < 0:
            continue
        first = until = now
        singles, runs = patterns[pattern_of[task]]
        portion = portions[task]
        of_groups = of_tasks[task]
        if portion > 1:
            of_groups = [of_group / portion for of_group in of_groups]
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
    """Tasks in the order in which they are ready. Tasks that wait in a line for the previous task are put aside."""

    rank: Sequence[int]
    line: Sequence[int]
    is_long: Sequence[bool]
    heap: list[tuple[float, int, int]] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    aside: dict[int, deque[int]] = field(default_factory=dict)

    def put(self, seconds: float, task: int) -> None:
        heapq.heappush(self.heap, (seconds, self.rank[task], task))

    def take(self, now: float, task: int) -> int:
        """The task to serve now: `task` if it is the first in its line; if not, put it aside and return `NOTHING`."""
        del now
        line = self.line[task]
        if line in self.first:
            if self.first[line] != task:
                self.aside.setdefault(line, deque()).append(task)
                return NOTHING
        elif self.is_long[task]:
            self.first[line] = task
        return task

    def leave(self, task: int, now: float, until: float) -> None:
        """Remove a completed task from its line. The next task in the line is queued at once, or after a long task at
        the end of that task."""
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
    """The number of portions of each task."""
    busiest = float(tasks.total().max(initial=0.0))
    if busiest <= 0:
        return [1] * len(tasks.seconds)
    longest = np.array([max(seconds) if seconds else 0.0 for seconds in tasks.seconds])
    wanted = np.ceil(longest * PORTIONS / busiest)
    portions: list[int] = np.clip(wanted, 1, MOST_PORTIONS).astype(np.intp).tolist()
    return portions

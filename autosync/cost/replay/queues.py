"""The replay itself: tasks that queue for resources in the order in which they are ready, on a heap of events.

A task keeps each resource busy for some seconds, all at the same time, and resources serve first who came first. What
takes long comes in portions, and queues again after each: so tasks that share a link, an uplink or cores take turns,
which is max-min fair as portions become small (each gets an equal share of what it needs most, and what it cannot use
is left to the others), while small tasks go ahead of the rest of large ones. Tasks that go the very same way are in one
line, however, where the next begins when the one before it is through, as messages do between two processes.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

PORTIONS = 32
"""A portion is this part of the busiest resource's seconds, or more."""
MOST_PORTIONS = 8

FloatArray = npt.NDArray[np.float64]

Observer = Callable[[int, int, float, float], None]


@dataclass(frozen=True, eq=False)
class Tasks:
    """`busy` float64 (tasks, resources) in seconds; `chain` (tasks,) is how long a task takes with all to itself.

    Of tasks that are ready at the same time the one with the lower `rank` comes first; those of one `line` keep their
    order.
    """

    busy: FloatArray
    chain: FloatArray
    rank: Sequence[int]
    line: Sequence[int]
    successors: Sequence[Sequence[int]]
    waits_for: Sequence[int]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times at which each task was ready, began (had all its resources) and ended, in seconds, float64 (tasks,)."""

    ready: FloatArray
    begin: FloatArray
    end: FloatArray


def replayed(tasks: Tasks, observe: Observer | None = None) -> Timeline:
    """Go through all tasks. `observe` is told of every portion: its task, a resource, when that begins and ends it."""
    successors, (count, width) = tasks.successors, tasks.busy.shape
    portions = _portions(tasks.busy)
    used = _used(tasks.busy / portions[:, None])
    ready, begin, end = [0.0] * count, [-1.0] * count, [0.0] * count
    left, chain, waits_for = portions.tolist(), tasks.chain.tolist(), list(tasks.waits_for)
    free = [0.0] * width
    queue = _Queue(tasks.rank, tasks.line, [each > 1 for each in left])
    for task in range(count):
        if not waits_for[task]:
            queue.put(0.0, task)
    while queue.heap:
        now, _, task = heapq.heappop(queue.heap)
        if not queue.takes(task):
            continue
        first = until = now
        for resource, seconds in used[task]:
            at = free[resource]
            if at < now:
                at = now
            elif at > first:
                first = at
            free[resource] = then = at + seconds
            if then > until:
                until = then
            if observe is not None:
                observe(task, resource, at, then)
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


def _used(seconds: FloatArray) -> list[list[tuple[int, float]]]:
    """The resources each task uses, and for how long at a time; of `seconds` (tasks, resources) most are 0."""
    task, resource = np.nonzero(seconds)
    pairs = list(zip(resource.tolist(), seconds[task, resource].tolist(), strict=True))
    ends = np.searchsorted(task, np.arange(len(seconds) + 1)).tolist()
    return [pairs[begin:end] for begin, end in pairwise(ends)]


def _portions(busy: FloatArray) -> npt.NDArray[np.int64]:
    """The number of portions in which each task comes."""
    busiest = float(busy.sum(axis=0).max(initial=0.0))
    if busiest <= 0:
        return np.ones(len(busy), dtype=np.int64)
    wanted = np.ceil(busy.max(axis=1) * PORTIONS / busiest)
    return np.asarray(np.clip(wanted, 1, MOST_PORTIONS), dtype=np.int64)


FEW = 48
"""The most resources that are not worth folding."""


def folded(tasks: Tasks) -> Tasks:
    """The same tasks on fewer resources, with the same times."""
    busy = tasks.busy
    if busy.shape[1] <= FEW:
        return tasks
    # Equal columns have equal sums under any weights; which of these are equal is checked.
    marks = np.cos(np.arange(1, len(busy) + 1)) @ busy
    order = np.argsort(marks, kind="stable")
    columns = busy[:, order]
    differs = np.ones(len(order), dtype=np.bool_)
    differs[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    kept = np.sort(order[differs & columns.any(axis=0)])
    return replace(tasks, busy=np.ascontiguousarray(busy[:, kept])) if len(kept) else tasks

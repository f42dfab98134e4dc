"""Tasks in the order of their urgency: a resource that becomes free serves the most urgent task that waits for it.

A task waits for its bottleneck, the places that it keeps busy longest, and then takes its turn at its other places. A
task of several portions can be overtaken after each of them, also in its own line, as an urgent message overtakes a
large one piece by piece in the PyTorch engine.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from autosync.cost.replay.places import NOTHING, Pattern


@final
@dataclass
class UrgentQueue:
    """Tasks by the time at which they may begin, then by urgency. Tasks that wait in a line are put aside."""

    urgency: Sequence[int]
    line: Sequence[int]
    is_long: Sequence[bool]
    patterns: Sequence[Pattern]
    pattern_of: Sequence[int]
    seconds: Sequence[Sequence[float]]
    """The seconds of each task at the groups of its pattern."""
    free: array[float]
    """When each place becomes free, as the replay goes on."""
    heap: list[tuple[float, int, int]] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    aside: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    bottlenecks: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Places by the number of a pattern and of a group."""

    def put(self, seconds: float, task: int) -> None:
        heapq.heappush(self.heap, (seconds, self.urgency[task], task))

    def take(self, now: float, task: int) -> int:
        """The task to serve now, the most urgent of the line of `task`. `NOTHING` if the line has another first task,
        or if the bottleneck of `task` is busy; then `task` is put aside, or waits.
        """
        line = self.line[task]
        if self.first.get(line, task) != task:
            heapq.heappush(self.aside.setdefault(line, []), (self.urgency[task], task))
            return NOTHING
        if line >= 0:
            self.first[line] = task
        begins = min((self.free[place] for place in self._bottleneck(task)), default=now)
        if begins > now:
            self.put(begins, task)
            return NOTHING
        aside = self.aside.get(line)
        if aside and aside[0] < (self.urgency[task], task):
            _, task = heapq.heapreplace(aside, (self.urgency[task], task))
            self.first[line] = task
        return task

    def leave(self, task: int, now: float, until: float) -> None:
        """Remove a completed task from its line. The next task in the line is queued at once, or after a long task at
        the end of that task."""
        line = self.line[task]
        if self.first.get(line) != task:
            return
        if self.aside.get(line):
            _, self.first[line] = heapq.heappop(self.aside[line])
            self.put(until if self.is_long[task] else now, self.first[line])
        else:
            del self.first[line]

    def _bottleneck(self, task: int) -> list[int]:
        """The places that the task keeps busy longest; empty if it keeps none busy."""
        seconds = self.seconds[task]
        longest = max(seconds, default=0.0)
        if not longest:
            return []
        key = self.pattern_of[task], seconds.index(longest)
        if key not in self.bottlenecks:
            pattern, group = self.patterns[key[0]], key[1]
            runs = [place for run in pattern.runs if run.group == group for place in range(run.first, run.after)]
            self.bottlenecks[key] = [*(place for place, of_place in pattern.singles if of_place == group), *runs]
        return self.bottlenecks[key]

"""Folding: resources that all tasks load alike are one resource.

Symmetric workers, links and servers come out as equal columns, whatever their names, and equal columns stay equal all
through a replay: leaving all but one of them away changes no time. What no task loads is left away too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autosync.cost.replay.queues import Tasks

__all__ = ["folded"]

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

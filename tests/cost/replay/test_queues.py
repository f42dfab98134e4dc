"""Tasks take turns on shared resources, keep their order on the same path, and leave unused capacity to others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from autosync.cost.replay.places import Pattern
from autosync.cost.replay.queues import Tasks, Timeline, replay_tasks

TURN = 1.0 / 8
"""The tolerance of fair sharing: one of a task's eight portions."""


def run(busy: list[list[float]], line: list[int] | None = None, chain: list[float] | None = None) -> Timeline:
    """Replay tasks that are all ready at the start."""
    count = len(busy)
    return replay_tasks(tasks_of(busy, chain or [0.0] * count, line or list(range(count)), [[]] * count, [0] * count))


def tasks_of(
    busy: list[list[float]], chain: list[float], line: list[int], successors: list[list[int]], waits_for: list[int]
) -> Tasks:
    """Tasks that keep places busy for `busy` (tasks, places) seconds."""
    places = len(busy[0])
    pattern = Pattern(places, tuple((place, place) for place in range(places)))
    count = len(busy)
    return Tasks(places, [pattern], [0] * count, busy, np.array(chain), range(count), line, successors, waits_for)


def test_a_task_takes_as_long_as_its_busiest_resource() -> None:
    assert run([[2.0, 5.0]]).end.tolist() == pytest.approx([5.0])


def test_a_task_takes_no_less_than_its_chain() -> None:
    assert run([[2.0, 1.0]], chain=[7.0]).end.tolist() == [7.0]


def test_two_tasks_share_a_link_half_and_half() -> None:
    assert run([[1.0], [1.0]]).end.tolist() == pytest.approx([2.0, 2.0], abs=TURN + 1e-9)


def test_a_short_task_does_not_wait_for_all_of_a_long_one() -> None:
    timeline = run([[8.0], [0.5]])
    assert timeline.end[1] <= 3.0
    assert timeline.end[0] == pytest.approx(8.5)


def test_the_unused_part_of_a_link_is_left_to_the_other_task() -> None:
    # The first task is limited by another place and needs a quarter of the link, so the second has three quarters.
    timeline = run([[1.0, 4.0], [3.0, 0.0]])
    assert timeline.end.tolist() == pytest.approx([4.0, 4.0], abs=0.5)


def test_tasks_that_go_the_same_way_keep_their_order() -> None:
    timeline = run([[1.0], [1.0], [1.0]], line=[0, 0, 0])
    assert timeline.end.tolist() == pytest.approx([1.0, 2.0, 3.0])


def test_short_tasks_on_the_same_path_overlap_their_chains() -> None:
    timeline = run([[0.1]] * 4 + [[8.0]], line=[0, 0, 0, 0, 1], chain=[1.0] * 4 + [0.0])
    assert timeline.end[:4].max() < 1.6


def test_a_task_begins_when_the_last_of_those_before_it_has_ended() -> None:
    busy = [[1.0, 0.0], [0.0, 3.0], [1.0, 1.0]]
    tasks = tasks_of(busy, [0.0] * 3, [0, 1, 2], successors=[[2], [2], []], waits_for=[0, 0, 2])
    timeline = replay_tasks(tasks)
    assert (timeline.ready[2], timeline.begin[2], timeline.end[2]) == (3.0, 3.0, 4.0)


def test_no_resource_is_busy_with_two_portions_at_a_time() -> None:
    generator = np.random.default_rng(0)
    busy = generator.random((20, 5)) * (generator.random((20, 5)) < 0.4)
    tasks = tasks_of(busy.tolist(), [0.0] * 20, [task % 6 for task in range(20)], [[]] * 20, [0] * 20)
    used: list[list[tuple[float, float]]] = [[] for _ in range(5)]

    def observe(_: int, resource: int, begin: float, end: float) -> None:
        used[resource].append((begin, end))

    replay_tasks(tasks, observe)
    for resource, spans in enumerate(used):
        assert sum(last - first for first, last in spans) == pytest.approx(busy[:, resource].sum())
        ordered = sorted(spans)
        assert all(before[1] <= after[0] + 1e-12 for before, after in pairwise(ordered))


def test_steps_without_any_load_take_no_time() -> None:
    assert run([[0.0], [0.0]]).end.max() == 0.0

"""The grid of an all-reduce tuned by hand, over made-up trials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import pytest

from autosync.baselines.tuned import all_reduce_grid
from autosync.errors import NodesLostError, TrialError
from autosync.runs import contenders
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from autosync.tune.finalists import finalists
from autosync.tune.grid import is_of_grid, time_grid
from tests.tune.pretend import CLUSTER, MODEL, PROTOCOL, PretendBackend, pretended_job, printed
from tests.tune.records import record
from trials.trial import TrialRequest

GRID = {strategy.digest for strategy in all_reduce_grid(MODEL, CLUSTER).values()}
SEARCHED = [record("all_reduce_per_variable", [0.5]), record("parameter_server", [0.4])]
"""The first strategy is in the grid too."""


@final
class FailingBackend:
    """A back end that pretends to run trials and raises `error` after `after` trials."""

    model: ModelSpec = MODEL
    cluster: ClusterSpec = CLUSTER

    def __init__(self, error: Exception, after: int) -> None:
        self._error = error
        self._after = after

    def run(self, request: TrialRequest) -> RuntimeRecord:
        self._after -= 1
        if self._after < 0:
            raise self._error
        return PretendBackend().run(request)


def digests(records: Sequence[RuntimeRecord]) -> set[str]:
    return {timing.strategy.digest for timing in records}


def test_what_the_search_has_not_timed_of_the_grid_is_timed_kept_and_counted(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, PretendBackend())
    grid_records = time_grid(job, SEARCHED, PROTOCOL)
    assert digests(grid_records) == GRID - digests(SEARCHED)
    assert job.store.read(run=job.directory.name) == grid_records
    assert all(is_of_grid(timing) for timing in grid_records)
    assert not any(is_of_grid(timing) for timing in SEARCHED)
    assert f"Timing an all-reduce tuned by hand: {len(GRID) - 1} trials left of {len(GRID)} combinations" in printed(
        job
    )


def test_what_the_search_found_by_itself_of_the_grid_is_a_baseline_all_the_same(tmp_path: Path) -> None:
    strategy = next(iter(all_reduce_grid(MODEL, CLUSTER).values()))
    records = [*SEARCHED, record(strategy, [0.1])]
    timed = time_grid(pretended_job(tmp_path, PretendBackend()), records, PROTOCOL)
    (rerun,) = [replace(timing, step_seconds=(0.1,)) for timing in timed if timing.strategy == strategy]
    records.append(rerun)
    assert [finalist for finalist in finalists(records) if finalist.strategy == strategy] == [rerun]
    assert [
        contender.purpose for contender in contenders(records, [[rerun]]) if contender.digest == strategy.digest
    ] == ["baseline"]


def test_a_run_that_goes_on_times_only_what_is_left(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, FailingBackend(TrialError("No worker starts any more."), after=1))
    assert len(time_grid(job, SEARCHED, PROTOCOL)) == 1
    assert "The grid was not timed completely: No worker starts any more." in printed(job)
    again = replace(job, backend=PretendBackend())  # type: ignore[arg-type]
    assert digests(time_grid(again, SEARCHED, PROTOCOL)) == GRID - digests(SEARCHED)
    assert len(job.store.read(run=job.directory.name)) == len(GRID) - 1


def test_without_time_left_no_trial_begins_and_that_is_said(tmp_path: Path) -> None:
    job = replace(pretended_job(tmp_path, PretendBackend(), time_budget_seconds=5.0), begin=time.monotonic() - 60.0)
    assert time_grid(job, SEARCHED, PROTOCOL) == []
    assert f"The time budget has no room for {len(GRID) - 1} of these trials." in printed(job)


def test_lost_nodes_end_it_as_they_end_a_search(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, FailingBackend(NodesLostError("All nodes are gone."), after=1))
    with pytest.raises(NodesLostError, match="All nodes are gone"):
        time_grid(job, SEARCHED, PROTOCOL)
    assert len(job.store.read(run=job.directory.name)) == 1

"""The finals of a job: DDP's default, the best baselines and the best of each method, timed in one run in turns."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from autosync.cost import step_bound
from autosync.engine.core.versions import VERSIONS
from autosync.errors import BenchError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, TimingProtocol
from autosync.tune.finals import take_turns
from autosync.tune.refusals import can_overlap
from studies.proof.cells import DEFAULT, FRAMEWORK, ProofJob
from studies.proof.columns import job_columns
from studies.proof.methods import BASELINES, METHODS, PROTOCOL, MethodRun
from studies.proof.timing import JobTimer
from trials.trial import TrialRequest

BASELINE_ROLE, DEFAULT_ROLE = "baseline", "default"
MOST_BASELINES, CLOSE = 3, 1.05
"""The most baselines in the finals, and their longest step as a multiple of the best one's: the best in its trial may
have been lucky."""

ROUNDS = 5
TURN = TimingProtocol(warmup_steps=2, timed_steps=6, time_limit_seconds=PROTOCOL.time_limit_seconds)


@final
@dataclass(frozen=True)
class Finalist:
    """A strategy of the finals, by its trial."""

    record: RuntimeRecord
    roles: tuple[str, ...]
    """The methods that found it, `BASELINE_ROLE` and `DEFAULT_ROLE`."""


def finalists_of(runs: Sequence[MethodRun]) -> list[Finalist]:
    """Return the finalists, each strategy once. Raises `BenchError` without a timed baseline."""
    by_method = {run.method: _fastest_first(run.records) for run in runs}
    baselines = by_method[BASELINES]
    if not baselines:
        raise BenchError("The finals need a timed baseline, but every baseline failed; see the records of the cell.")
    close = [record for record in baselines[:MOST_BASELINES] if _seconds(record) <= CLOSE * _seconds(baselines[0])]
    default = next(run for run in runs if run.method == BASELINES).records
    chosen = [
        *((record, DEFAULT_ROLE) for record in default if record.label == DEFAULT),
        *((record, BASELINE_ROLE) for record in close),
        *((by_method[method][0], method) for method in METHODS if by_method.get(method)),
    ]
    roles: dict[str, list[str]] = {}
    first: dict[str, RuntimeRecord] = {}
    for record, role in chosen:
        first.setdefault(record.strategy.digest, record)
        roles.setdefault(record.strategy.digest, []).append(role)
    return [Finalist(record, tuple(roles[name])) for name, record in first.items()]


def hold_finals(
    job: ProofJob, finalists: Sequence[Finalist], timer: JobTimer, rounds: int = ROUNDS
) -> list[list[RuntimeRecord]]:
    """Time the finalists in turns; return the records by round. Raises `OutOfTimeError` and `TrialError`."""
    requests = [
        TrialRequest(finalist.record.strategy, TURN, "remeasure", finalist.record.label, job.run, job.seed)
        for finalist in finalists
    ]
    return take_turns(requests, rounds, timer.run, lambda _: None)


def rows_of_finals(
    job: ProofJob,
    finalists: Sequence[Finalist],
    rounds: Sequence[Sequence[RuntimeRecord]],
    model: ModelSpec,
    cluster: ClusterSpec,
) -> list[Mapping[str, Any]]:
    """Return the rows of `FINALS`."""
    bound = step_bound(model, cluster, can_overlap(FRAMEWORK, model, cluster))
    shared = job_columns(job) | {
        "bound_with_barrier_seconds": step_bound(model, cluster).seconds,
        "bound_seconds": bound.seconds,
        "limit": bound.reason,
        "engine": str(VERSIONS[FRAMEWORK]),
        "finished_at": time.time(),
    }
    return [
        shared
        | {
            "strategy": finalist.record.strategy.digest,
            "label": finalist.record.label,
            "roles": list(finalist.roles),
            "seconds": [
                turn[place].median_seconds if turn[place].outcome == "ok" else None
                for turn in rounds
                if place < len(turn)
            ],
            "has_barrier": not finalist.record.strategy.overlap_next_forward,
        }
        for place, finalist in enumerate(finalists)
    ]


def _fastest_first(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """Return the trials with a step time, the fastest first.

    Those that were stopped early count too: they were slow for the method that timed them first, but may be the fastest
    of a slower method.
    """
    return sorted((record for record in records if record.timed), key=_seconds)


def _seconds(record: RuntimeRecord) -> float:
    return math.inf if record.median_seconds is None else record.median_seconds

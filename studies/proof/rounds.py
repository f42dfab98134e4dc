"""Runs the unfinished jobs in order: makes each cluster, visits it for all jobs in a row, and takes it down again."""

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from autosync.errors import ClusterError
from studies.collect.folder import Folder
from studies.collect.head import OPENING_SECONDS, lines_on_head
from studies.proof.cells import ProofJob, cluster_named
from studies.proof.finals import ROUNDS
from studies.proof.methods import PROTOCOL, TRIALS
from studies.proof.results import ProofResults
from studies.proof.teaching import checkpoint_for, teachers
from studies.proof.visit import ProofVisit, RequestedJob
from trials.emulate import down, emulated

LEAST_SECONDS = 60.0
"""The fewest seconds for which a cluster is made."""


@dataclass(frozen=True)
class ProofOrder:
    """A request to run jobs."""

    jobs: Sequence[ProofJob]
    out: Path
    """The folder of the results."""
    data: Path
    """The folder of records that teach guided search, with the figures of clusters and the profiles of models."""
    seconds: float
    """Seconds after which no trial starts."""
    trials: int = TRIALS
    """Trials of each method."""
    rounds: int = ROUNDS
    """Rounds of the finals."""


def run(order: ProofOrder, say: Callable[[str], None]) -> int:
    """Run the unfinished jobs while there is time; return the number of jobs that are left."""
    deadline = time.monotonic() + order.seconds
    results = ProofResults.create(order.out)
    due = [job for job in order.jobs if not results.is_done(job)]
    say(f"{len(due)} of {len(order.jobs)} jobs are left.")
    recorded = teachers(order.data) if due else []
    for cluster, group in groupby(due, key=lambda job: job.cell.cluster):
        jobs = tuple(
            RequestedJob(job.cell.model, job.seed, str(checkpoint_for(job.cell, recorded, order.out / "checkpoints")))
            for job in group
        )
        left = deadline - time.monotonic()
        if left < LEAST_SECONDS:
            break
        _visit(order, cluster, jobs, say, deadline)
    results.merge()
    return sum(not results.is_done(job) for job in order.jobs)


def _visit(
    order: ProofOrder, cluster: str, jobs: tuple[RequestedJob, ...], say: Callable[[str], None], deadline: float
) -> None:
    """Make one cluster, run the jobs on it and take it down. A failure is reported."""
    name = Folder(order.out).cluster_name
    patience = OPENING_SECONDS + PROTOCOL.time_limit_seconds
    try:
        down(name)  # remains of a killed command
        with emulated(name, cluster_named(cluster)) as made:
            visit = ProofVisit(
                str(order.out.resolve()),
                str(order.data.resolve()),
                cluster,
                jobs,
                max(deadline - time.monotonic(), 0.0),
                order.trials,
                order.rounds,
            )
            for line in lines_on_head(made.hosts[0], "studies.proof.visit", visit.text, patience):
                say(line)
    except (ClusterError, OSError, subprocess.SubprocessError) as error:
        say(f"Cluster {cluster}: {error}")

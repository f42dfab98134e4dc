"""A visit: runs all due methods and the finals of some jobs on an emulated cluster that is up. Runs on its head.

`studies.proof.rounds` starts a visit as a process of its own, which ends together with the command.
"""

import json
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.exceptions import RayError, RayTaskError

from autosync.errors import AutosyncError, NodesLostError
from autosync.spec import parse_json
from autosync.spec.codec import Noun
from autosync.stats.cells import CellName
from autosync.terminal import say
from autosync.words.quantities import duration, milliseconds
from studies.collect.folder import Folder
from studies.collect.head import BROKEN, backend_on_head, end_with_the_caller
from studies.proof.cells import FRAMEWORK, ProofJob
from studies.proof.finals import ROUNDS, finalists_of, hold_finals, rows_of_finals
from studies.proof.methods import ORDER, TRIALS, MethodRun, Methods
from studies.proof.results import ProofResults
from studies.proof.timing import JobTimer, OutOfTimeError
from trials.fleet.lanes import Backend
from trials.trial import reason_of
from trials.workers.local_ray import RayStart, start_ray


@dataclass(frozen=True)
class RequestedJob(Noun, what="A requested job"):
    """A job and the checkpoint of its guided search."""

    model: str
    seed: int
    checkpoint: str


@dataclass(frozen=True)
class ProofVisit(Noun, what="A visit"):
    """A request to run jobs on one cluster."""

    out: str
    """The folder of the results."""
    measured: str
    """The folder with the figures of clusters and the profiles of models."""
    cluster: str
    jobs: tuple[RequestedJob, ...]
    seconds: float
    """Seconds after which no trial starts."""
    trials: int = TRIALS
    """Trials of each method."""
    rounds: int = ROUNDS
    """Rounds of the finals."""

    @property
    def text(self) -> str:
        return json.dumps(self.to_json())


def main(arguments: list[str]) -> int:
    """Run the visit requested in the only argument; return the exit status."""
    begin = time.monotonic()
    end_with_the_caller()
    visit = ProofVisit.from_json(parse_json(arguments[0], "A visit"))
    results = ProofResults.create(Path(visit.out))
    start_ray(RayStart())
    try:
        for asked in visit.jobs:
            _run_job(visit, asked, results, begin + visit.seconds)
    except OutOfTimeError:
        say("The time of this command is over; the same command resumes with the next trial.")
    finally:
        ray.shutdown()
    return 0


def _run_job(visit: ProofVisit, asked: RequestedJob, results: ProofResults, deadline: float) -> None:
    """Run one job. An error is reported, and the visit continues with the next job, unless nodes were lost."""
    job = ProofJob(CellName(asked.model, visit.cluster), asked.seed)
    if time.monotonic() > deadline:
        raise OutOfTimeError
    try:
        folder = Folder(Path(visit.measured))
        with closing(backend_on_head(folder, job.cell, FRAMEWORK)) as backend:
            run_job(job, visit, asked.checkpoint, results, backend, folder, deadline)
    except NodesLostError as error:
        say(f"{job}: {error}")
        sys.exit(BROKEN)
    except AutosyncError as error:
        say(f"{job}: {error}")
    except RayTaskError as error:  # the next job may still succeed
        say(f"{job}: {reason_of(error.cause)}")
    except RayError as error:
        say(f"{job}: {reason_of(error)}")


def run_job(
    job: ProofJob,
    visit: ProofVisit,
    checkpoint: str,
    results: ProofResults,
    backend: Backend,
    folder: Folder,
    deadline: float,
) -> None:
    """Run the unfinished methods of `job`, then its finals. Raises `OutOfTimeError` and `AutosyncError`."""
    begin = time.monotonic()
    model = folder.with_profile(backend.model)
    timer = JobTimer(backend, model, results.records, deadline)
    records = results.records.read(run=job.run)
    timer.take_up(records)
    methods = Methods(job, model, backend.cluster, timer, Path(checkpoint), visit.trials)
    done = results.read_methods(job, records)
    methods.rehearse()
    runs: list[MethodRun] = []
    for name in ORDER:
        if name not in done:
            before, timed = time.monotonic(), timer.timed
            done[name] = methods.run(name)
            results.write_method(job, done[name])
            say(f"{job}: {_outcome(done[name], timer.timed - timed, time.monotonic() - before)}")
        runs.append(done[name])
    finalists = finalists_of(runs)
    rounds = hold_finals(job, finalists, timer, visit.rounds)
    results.write_finals(job, rows_of_finals(job, finalists, rounds, model, backend.cluster))
    say(f"{job}: finals of {len(finalists)}; this visit of the cell took {duration(time.monotonic() - begin)}")


def _outcome(run: MethodRun, timed: int, seconds: float) -> str:
    medians = [record.median_seconds for record in run.records if record.outcome == "ok" and record.median_seconds]
    best = milliseconds(min(medians), run.records[0].time) if medians else "no step time"
    return (
        f"{run.method}: best {best} a step, {len(run.records)} trials, {timed} of them new, in {duration(seconds)} "
        f"({run.thinking_seconds:.0f} s of its own)"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

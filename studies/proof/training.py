"""Trains under a job's winners in turns: `torchrun` on every node of the paced cluster, with computed gradients."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autosync.engine.core.versions import VERSIONS
from autosync.errors import AutosyncError, BenchError
from autosync.spec import RuntimeRecord, parse_json
from studies.bench.contenders import OURS
from studies.collect.folder import Folder
from studies.proof.cells import FRAMEWORK, ProofJob, cluster_named
from studies.proof.columns import job_columns
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.outcomes import JobOutcome, Row, check_any, outcomes_of
from studies.proof.results import ProofResults
from studies.proof.training_rank import TrainingPlan
from trials.emulate import Host, down, emulated, start_inside

ROLES = (DEFAULT_ROLE, BASELINE_ROLE, OURS)
"""DDP with its default settings, the best baseline, and the strategy of guided search."""

WARM_UP, STEPS = 2, 10
PORT = 29437
PATIENCE_SECONDS = 1200.0
"""Seconds after which training counts as hung."""


def train(jobs: Sequence[ProofJob], out: Path, rounds: int, say: Callable[[str], None]) -> None:
    """Train under the finalists of each job that has finals, and write a row for each strategy.

    A job that fails is reported and passed over. Raises `BenchError` if no job has finals.
    """
    results = ProofResults.create(out)
    outcomes = outcomes_of(results.finals.read(), results.methods.read())
    check_any(outcomes, out)
    by_job = {outcome.key: outcome for outcome in outcomes}
    done = [job for job in jobs if job.key in results.training]
    ready = [job for job in jobs if (job.cell, job.seed) in by_job and job not in done]
    say(f"{len(ready)} jobs to train under, {len(done)} done, {len(jobs) - len(ready) - len(done)} without finals yet.")
    for job in ready:
        try:
            rows = _train_job(job, by_job[job.cell, job.seed], results, out, rounds)
        except AutosyncError as error:  # the next job may still succeed
            say(f"{job}: {error}")
            continue
        results.training.write(job.key, rows)
        told = ", ".join(f"{row['label']} {1e3 * statistics.median(row['seconds']):.1f} ms" for row in rows)
        say(f"{job}: in training, paced with computed gradients: {told} a step.")
    results.training.merge()


def _train_job(
    job: ProofJob, outcome: JobOutcome, results: ProofResults, out: Path, rounds: int
) -> list[Mapping[str, Any]]:
    finalists = _finalists(outcome)
    records = {record.strategy.digest: record for record in results.records.read(run=job.run)}
    chosen = [records[row["strategy"]] for row in finalists]
    answer = _answer_of_ranks(job, chosen, out, rounds)
    shared = job_columns(job) | {"engine": str(VERSIONS[FRAMEWORK]), "finished_at": time.time()}
    return [
        shared
        | {
            "strategy": row["strategy"],
            "label": row["label"],
            "roles": [role for role in ROLES if outcome.finalist(role) is row],
            "seconds": answer["seconds"][place],
            "losses": answer["losses"][place],
            "late_seconds": answer["late_seconds"][place],
        }
        for place, row in enumerate(finalists)
    ]


def _finalists(outcome: JobOutcome) -> list[Row]:
    """The finalists of `ROLES`, each once."""
    found = [row for role in ROLES if (row := outcome.finalist(role)) is not None]
    return [row for place, row in enumerate(found) if row not in found[:place]]


def _answer_of_ranks(job: ProofJob, records: Sequence[RuntimeRecord], out: Path, rounds: int) -> dict[str, Any]:
    """Train on the job's cluster, made for this; return the answer of rank 0."""
    name = Folder(out).cluster_name
    down(name)  # remains of a killed command
    with (
        emulated(name, cluster_named(job.cell.cluster), start_ray=False) as made,
        tempfile.TemporaryDirectory(dir=out) as folder,
    ):
        strategies = tuple(record.strategy for record in records)
        plan = TrainingPlan(
            job.cell.model, records[0].model, made.cluster, strategies, job.seed, rounds, WARM_UP, STEPS
        )
        file = Path(folder).resolve() / "plan.json"
        file.write_text(json.dumps(plan.to_json()))
        log = Path(folder) / "torchrun.log"
        launchers: list[subprocess.Popen[str]] = []
        try:
            for number, host in enumerate(made.hosts):
                workers = len(made.cluster.nodes[number].cpu_devices)
                argv = [*_torchrun(made.hosts, number, workers), "-m", "studies.proof.training_rank", str(file)]
                launchers.append(_start(host, argv, log, is_read=number == 0))
            output, _ = launchers[0].communicate(timeout=PATIENCE_SECONDS)
            statuses = [launcher.wait(timeout=60.0) for launcher in launchers]
        except subprocess.TimeoutExpired:
            raise BenchError(f"Training has not ended after {PATIENCE_SECONDS:.0f} s; run it again.") from None
        finally:
            for launcher in launchers:
                launcher.kill()
                launcher.wait()
        if any(statuses):
            text = log.read_text()
            start = max(text.find("Traceback"), 0)  # of the rank that failed first; torchrun's own follow
            raise BenchError(f"torchrun ended with {statuses}; from its output: {text[start : start + 2000]}")
    return parse_json(output.splitlines()[-1], "The answer of rank 0")


def _torchrun(hosts: Sequence[Host], number: int, workers: int) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *("--nnodes", str(len(hosts)), "--node-rank", str(number), "--nproc-per-node", str(workers)),
        *("--master-addr", hosts[0].address, "--master-port", str(PORT)),
    ]


def _start(host: Host, argv: Sequence[str], log: Path, is_read: bool) -> subprocess.Popen[str]:
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    with log.open("a") as errors:
        output = subprocess.PIPE if is_read else errors
        return start_inside(host, argv, env=environment, ends_with_us=True, stdout=output, stderr=errors, text=True)

"""The columns of the proof's results: a row for each method, finalist and trained strategy of a job."""

from collections.abc import Mapping
from typing import Any

from autosync.dataset import ResultColumn
from autosync.engine.core.versions import VERSIONS
from studies.bench.versions import of_live
from studies.proof.cells import FRAMEWORK, ProofJob
from studies.proof.methods import MethodRun

JOB = (
    ResultColumn("cell", "text", "none", "model and emulated cluster"),
    ResultColumn("model", "text", "none", "name of the model"),
    ResultColumn("cluster", "text", "none", "name of the cluster"),
    ResultColumn("seed", "integer", "none", "seed of the searchers and of paced passes"),
)

METHOD_RUNS = (
    *JOB,
    ResultColumn("method", "text", "none", "the searcher, or what was tuned by hand"),
    ResultColumn("version", "text", "none", "versions of the engine and of the searcher"),
    ResultColumn("strategies", "texts", "none", "digests of the strategies, in the order timed"),
    ResultColumn("labels", "texts", "none", "source of each strategy"),
    ResultColumn("purposes", "texts", "none", "of each: a baseline, or a strategy searched for"),
    ResultColumn("outcomes", "texts", "none", "ok, stopped, failed or timed_out"),
    ResultColumn("measured_seconds", "numbers", "s", "median step time of each trial; null if it has none"),
    ResultColumn("predicted_seconds", "numbers", "s", "step time that the searcher predicted; null if it has none"),
    ResultColumn("trial_seconds", "number", "s", "of all trials together, as recorded"),
    ResultColumn("thinking_seconds", "number", "s", "of the method itself, in addition to its trials"),
)

FINALS = (
    *JOB,
    ResultColumn("strategy", "text", "none", "digest of the finalist"),
    ResultColumn("label", "text", "none", "source of the finalist"),
    ResultColumn("roles", "texts", "none", "methods that returned it, `default`, or `baseline`"),
    ResultColumn("seconds", "numbers", "s", "median step time in each round; null if the turn failed"),
    ResultColumn("has_barrier", "flag", "none", "whether its steps end with a barrier"),
    ResultColumn("bound_with_barrier_seconds", "number", "s", "that no exact strategy with a barrier goes below"),
    ResultColumn("bound_seconds", "number", "s", "that no exact strategy goes below, without a barrier if possible"),
    ResultColumn("limit", "text", "none", "what sets that bound"),
    ResultColumn("engine", "text", "none", "version of the engine"),
    ResultColumn("finished_at", "number", "s", "end of the finals, since 1970"),
)

TRAINING = (
    *JOB,
    ResultColumn("strategy", "text", "none", "digest of the strategy"),
    ResultColumn("label", "text", "none", "source of the strategy"),
    ResultColumn("roles", "texts", "none", "`default`, `baseline` or the method that returned it"),
    ResultColumn("seconds", "numbers", "s", "mean step time in each round, computed passes held to the pace"),
    ResultColumn("losses", "numbers", "none", "mean loss over all ranks at the end of each round"),
    ResultColumn("late_seconds", "number", "s", "largest lateness of a gradient in a step, mean over steps"),
    ResultColumn("engine", "text", "none", "version of the engine"),
    ResultColumn("finished_at", "number", "s", "end of the training, since 1970"),
)


def job_columns(job: ProofJob) -> dict[str, Any]:
    return {"cell": str(job.cell), "model": job.cell.model, "cluster": job.cell.cluster, "seed": job.seed}


def method_key(job: ProofJob, method: str) -> str:
    """Return the key of a method's result."""
    return f"{job.key}-{method.replace(' ', '-')}"


def row_of_method(job: ProofJob, run: MethodRun) -> Mapping[str, Any]:
    """Return the row of `METHOD_RUNS`."""
    records = run.records
    return job_columns(job) | {
        "method": run.method,
        "version": f"{of_live(run.method)}; {FRAMEWORK} {VERSIONS[FRAMEWORK]}",
        "strategies": [record.strategy.digest for record in records],
        "labels": [record.label for record in records],
        "purposes": [record.purpose for record in records],
        "outcomes": [record.outcome for record in records],
        "measured_seconds": [record.median_seconds for record in records],
        "predicted_seconds": [record.predicted_seconds for record in records],
        "trial_seconds": sum(record.total_seconds for record in records),
        "thinking_seconds": run.thinking_seconds,
    }

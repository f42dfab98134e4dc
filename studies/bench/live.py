"""Live searches: runs `autosync tune` on emulated clusters, once per cell and seed, and keeps the results."""

import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from autosync.cost import step_bound
from autosync.errors import AutosyncError, BenchError
from autosync.report.findings import Findings
from autosync.runs import read_run
from autosync.search.protocol import GIVEN
from autosync.spec import cut, digest
from autosync.stats.paired import ERROR, interval_of, log_ratios, speedup_of
from autosync.words.commands import is_cluster_file
from studies.bench.contenders import OURS
from studies.bench.versions import of_live
from trials.cluster.file import cluster_to_emulate
from trials.emulate.network import FRAME_BYTES
from trials.guard import guarding
from trials.opening import check_profile_of

FORMAT = "autosync.bench.live/4"
INTERRUPTED = 130
"""The exit status of `autosync.tune` after Ctrl-C."""

Row = dict[str, Any]


@final
@dataclass(frozen=True)
class LiveCell:
    """A model and a cluster as in `--emulate`: a star such as 4x200mbit, or a cluster file."""

    model: str
    cluster: str

    @property
    def cluster_name(self) -> str:
        return Path(self.cluster).stem if is_cluster_file(self.cluster) else self.cluster

    def __str__(self) -> str:
        return f"{self.model}@{self.cluster_name}"


def parse_cell(text: str) -> LiveCell:
    """Return the cell that is written MODEL@CLUSTER. Raises `BenchError`."""
    model, between, cluster = text.partition("@")
    if not (model and between and cluster):
        raise BenchError(
            f"--cells needs cells such as bert-mini@4x200mbit or vgg-mini@topologies/two_racks.yaml, but has {text!r}."
        )
    return LiveCell(model, cluster)


@final
@dataclass(frozen=True)
class LiveJob:
    """One live search of a cell."""

    cell: LiveCell
    searcher: str
    seed: int
    trials: int
    control: bool = False
    """Whether the cell is a control, on which no gain is possible."""
    without_rule: str = ""
    """The rule of the space to switch off, or an empty string."""
    more: tuple[str, ...] = ()
    """Further options of `autosync.tune`."""
    taught_on: str = ""
    """The digest of the cells that the simulator was pretrained on; empty if there are none."""

    @property
    def key(self) -> str:
        chosen = [self.searcher, self.seed, self.trials, self.control, self.without_rule, list(self.more)]
        return digest(
            [FORMAT, self.cell.model, self.cell.cluster, *chosen, self.taught_on, FRAME_BYTES, of_live(self.searcher)]
        )

    @property
    def may_be_taught(self) -> bool:
        """Whether the simulator can start from a checkpoint and `more` names no other start."""
        return self.searcher == OURS and not {"--simulator", "--warm-start"}.intersection(self.more)

    def directory(self, out: Path) -> Path:
        """Return the directory of the run, with a readable name made unique by the key."""
        without = f"-without-{self.without_rule}" if self.without_rule else ""
        return out / "runs" / str(self.cell) / f"{self.searcher}{without}-seed-{self.seed}-{self.key[:6]}"

    def __str__(self) -> str:
        without = f" without {self.without_rule}" if self.without_rule else ""
        return f"{self.cell}: {self.searcher}{without}, seed {self.seed}"


def jobs_of(
    cells: Sequence[str],
    seeds: int,
    without_rules: Sequence[str],
    profile: Path | None,
    more: tuple[str, ...],
    **fields: Any,
) -> list[LiveJob]:
    """Return a job for each of `cells` (written MODEL@CLUSTER), each rule to omit, and each of `seeds` seeds from 0 on.

    Paced passes follow the profile in the file `profile`, unless None. `fields` are further fields of the jobs. Raises
    `AutosyncError`.
    """
    parsed = [parse_cell(cell) for cell in cells]
    if profile is not None:
        clusters = [cluster_to_emulate(cell.cluster) for cell in parsed]
        check_profile_of(profile, [cell.model for cell in parsed], clusters, "--cells")
        more = ("--profile", str(profile), *more)
    return [
        LiveJob(cell, seed=seed, without_rule=rule, more=more, **fields)
        for seed in range(seeds)
        for cell in parsed
        for rule in without_rules or ("",)
    ]


def command_of(job: LiveJob, out: Path, checkpoint: Path | None = None) -> list[str]:
    """Return the command that starts the job from `checkpoint`, or resumes the job.

    The job has a records folder of its own, so no search learns from another search.
    """
    directory = job.directory(out)
    chosen = {
        "--model": job.cell.model,
        "--emulate": job.cell.cluster,
        "--searcher": job.searcher,
        "--seed": str(job.seed),
        "--trials": str(job.trials),
        "--out": str(directory),
        "--data": str(directory / "data"),
    }
    if job.without_rule:
        chosen["--without-rule"] = job.without_rule
    if checkpoint is not None:
        chosen["--warm-start"] = str(checkpoint)
    resume = ["--resume"] if (directory / "run.json").exists() else []
    options = [word for pair in chosen.items() for word in pair]
    return [sys.executable, "-m", "autosync.tune", *options, *job.more, *resume]


def run_live(job: LiveJob, out: Path, checkpoint: Path | None, run: Callable[[Sequence[str]], int]) -> int:
    """Run the job, unless an earlier command has finished it; return the exit status.

    `run` runs a command and returns its exit status. Raises `KeyboardInterrupt` if the run was interrupted; the same
    call resumes the run.
    """
    if (job.directory(out) / "result.json").exists():
        return 0
    status = run(command_of(job, out, checkpoint))
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    return status


def run_command(command: Sequence[str]) -> int:
    """Run the command and return its exit status.

    Ctrl-C reaches the command directly, because both are in the terminal's process group. This function then waits
    until the command has tidied up.
    """
    with guarding():
        process = subprocess.Popen(command)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            return INTERRUPTED


def row_of(job: LiveJob, out: Path) -> Row:
    """Return the result of a finished job as a row of `LIVE`. Raises `BenchError` if the result cannot be read."""
    directory = job.directory(out)
    try:
        return _row(job, Findings(read_run(directory, directory / "data")))
    except (AutosyncError, KeyError, TypeError, ValueError) as error:
        raise BenchError(
            f"{directory} must hold a finished run, but: {cut(repr(error))}; remove the directory and rerun the search."
        ) from None


def _row(job: LiveJob, findings: Findings) -> Row:
    trials, result = findings.run.trials, findings.run.result or {}
    verdict = result["verdict"]
    by_digest = {summary["strategy_digest"]: summary for summary in result["strategies"]}
    winner, baseline = by_digest[verdict["winner"]], by_digest[verdict["baseline"]]
    first = 1 + [trial.strategy.digest for trial in trials].index(verdict["winner"])
    low, high = verdict["speedup_interval"] or (math.nan, math.nan)
    return {
        "cell": str(job.cell),
        "model": job.cell.model,
        "searcher": job.searcher,
        "without_rule": job.without_rule,
        "taught_on": job.taught_on,
        "seed": job.seed,
        "control": job.control,
        "packet_bytes": FRAME_BYTES,
        "budget": job.trials,
        "more": " ".join(job.more),
        "trials": result["trials"],
        "failed_trials": result["failed_trials"],
        "wall_seconds": result["wall_seconds"],
        "found_after_trials": first,
        "speedup": verdict["speedup"],
        "speedup_low": low,
        "speedup_high": high,
        "beyond_noise": verdict["beyond_noise"],
        "baseline_label": verdict["baseline_label"],
        "baseline_seconds": baseline["median_seconds"],
        "median_baseline_seconds": _median_baseline(result["strategies"]),
        "winner_label": verdict["winner_label"],
        "winner_seconds": winner["median_seconds"],
        "changes_statistics": winner["changes_statistics"],
        "bound_seconds": step_bound(trials[0].model, trials[0].cluster).seconds,
        **_over_default(verdict),
        **_given_speedup(findings, str(verdict["baseline"])),
        "time": trials[0].time,
        "replicas": len(trials[0].strategy.replicas),
        "batch_size": trials[0].model.batch_size,
        "purposes": [trial.purpose for trial in trials],
        "measured_seconds": [trial.median_seconds for trial in trials],
        "hits": [point.hit for point in findings.points],
    }


def _over_default(verdict: Row) -> Row:
    """Return the winner's speed-up over the fastest of the frameworks' defaults; None if the finals had no default."""
    comparison = verdict.get("over_default")
    low, high = (comparison["speedup_interval"] or (math.nan, math.nan)) if comparison else (None, None)
    return {
        "over_default": comparison["speedup"] if comparison else None,
        "over_default_low": low,
        "over_default_high": high,
    }


def _given_speedup(findings: Findings, baseline: str) -> Row:
    """Return the speed-up over the best baseline of the fastest strategy that the search was given to try.

    The speed-up is paired by turns of the finals. The values are None if no strategy was given, or none was
    re-measured.
    """
    measured = [contender for contender in findings.contenders if contender.remeasured]  # fastest first
    suggested = [contender for contender in measured if contender.label == GIVEN]
    usual = next(contender for contender in measured if contender.digest == baseline)
    shared = sorted(usual.turns.keys() & suggested[0].turns.keys()) if suggested else []
    if not shared:
        return dict.fromkeys(("given_speedup", "given_speedup_low", "given_speedup_high"))
    logs = log_ratios([usual.turns[turn] for turn in shared], [suggested[0].turns[turn] for turn in shared])
    low, high = interval_of(logs, ERROR / len(suggested)) or (math.nan, math.nan)
    return {"given_speedup": speedup_of(logs), "given_speedup_low": low, "given_speedup_high": high}


def _median_baseline(strategies: Sequence[Row]) -> float:
    """Return the median step seconds of the baselines; failed baselines count as the slowest."""
    seconds = [summary["median_seconds"] for summary in strategies if summary["purpose"] == "baseline"]
    return statistics.median_high([math.inf if value is None else value for value in seconds])

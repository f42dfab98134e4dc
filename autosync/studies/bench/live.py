"""Live searches: `autosync tune` on clusters emulated for it, one run a cell and seed, each kept."""

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
from autosync.studies.bench.contenders import OURS
from autosync.studies.bench.versions import of_live
from autosync.words.commands import is_cluster_file
from trials.cluster.file import cluster_to_emulate
from trials.emulate.network import FRAME_BYTES
from trials.guard import guarded
from trials.opening import check_profile_of

FORMAT = "autosync.bench.live/4"
INTERRUPTED = 130
"""The exit status of `autosync.tune` after Ctrl-C."""

Row = dict[str, Any]


@final
@dataclass(frozen=True)
class LiveCell:
    """A model, and what `--emulate` is given: a star such as 4x200mbit, or a cluster file."""

    model: str
    cluster: str

    @property
    def cluster_name(self) -> str:
        return Path(self.cluster).stem if is_cluster_file(self.cluster) else self.cluster

    def __str__(self) -> str:
        return f"{self.model}@{self.cluster_name}"


def parse_cell(text: str) -> LiveCell:
    """The cell that is written MODEL@CLUSTER. Raises `BenchError`."""
    model, between, cluster = text.partition("@")
    if not (model and between and cluster):
        raise BenchError(
            f"--cells names cells such as bert-mini@4x200mbit or vgg-mini@topologies/two_racks.yaml; not {text!r}."
        )
    return LiveCell(model, cluster)


@final
@dataclass(frozen=True)
class LiveJob:
    """One search. `without_rule` names a rule of the space to switch off; `more` is given to `autosync.tune`;
    `taught_on` is a digest of the cells that taught its simulator before, if any did.
    """

    cell: LiveCell
    searcher: str
    seed: int
    trials: int
    control: bool = False
    without_rule: str = ""
    more: tuple[str, ...] = ()
    taught_on: str = ""

    @property
    def key(self) -> str:
        chosen = [self.searcher, self.seed, self.trials, self.control, self.without_rule, list(self.more)]
        return digest(
            [FORMAT, self.cell.model, self.cell.cluster, *chosen, self.taught_on, FRAME_BYTES, of_live(self.searcher)]
        )

    @property
    def may_be_taught(self) -> bool:
        """Whether its simulator can start from a checkpoint, and `more` does not say what it starts from."""
        return self.searcher == OURS and not {"--simulator", "--warm-start"}.intersection(self.more)

    def directory(self, out: Path) -> Path:
        """The directory of the run, readable, and told from others by the key."""
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
    **given: Any,
) -> list[LiveJob]:
    """A job for each of `cells`, written MODEL@CLUSTER, for each rule to be without, for as many `seeds` from 0 on.

    Paced passes follow the `profile` in a file, if one is given; `given` are other fields of the jobs. Raises
    `AutosyncError`.
    """
    parsed = [parse_cell(cell) for cell in cells]
    if profile is not None:
        clusters = [cluster_to_emulate(cell.cluster) for cell in parsed]
        check_profile_of(profile, [cell.model for cell in parsed], clusters, "--cells")
        more = ("--profile", str(profile), *more)
    return [
        LiveJob(cell, seed=seed, without_rule=rule, more=more, **given)
        for seed in range(seeds)
        for cell in parsed
        for rule in without_rules or ("",)
    ]


def command_of(job: LiveJob, out: Path, checkpoint: Path | None = None) -> list[str]:
    """The command that runs the job, from `checkpoint`, or goes on with it. Its records are its own: no search learns
    from another.
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
    given = [word for pair in chosen.items() for word in pair]
    return [sys.executable, "-m", "autosync.tune", *given, *job.more, *resume]


def run_live(job: LiveJob, out: Path, checkpoint: Path | None, run: Callable[[Sequence[str]], int]) -> int:
    """Run the job, unless an earlier command has; the exit status. `run` runs a command and gives its exit status.

    Raises `KeyboardInterrupt` when it was interrupted; the same call goes on there.
    """
    if (job.directory(out) / "result.json").exists():
        return 0
    status = run(command_of(job, out, checkpoint))
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    return status


def run_command(command: Sequence[str]) -> int:
    """Run the command; its exit status. Ctrl-C reaches it by itself, and it is waited for while it tidies up."""
    with guarded():
        process = subprocess.Popen(command)
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            return INTERRUPTED


def row_of(job: LiveJob, out: Path) -> Row:
    """What came of a job that is done, as a row of `LIVE`. Raises `BenchError` when its result cannot be read."""
    directory = job.directory(out)
    try:
        return _row(job, Findings(read_run(directory, directory / "data")))
    except (AutosyncError, KeyError, TypeError, ValueError) as error:
        raise BenchError(
            f"{directory} should hold a finished run, but: {cut(repr(error))}; remove it, and run it again."
        ) from None


def _row(job: LiveJob, found: Findings) -> Row:
    trials, result = found.run.trials, found.run.result or {}
    verdict = result["verdict"]
    by_digest = {each["strategy_digest"]: each for each in result["strategies"]}
    winner, baseline = by_digest[verdict["winner"]], by_digest[verdict["baseline"]]
    first = 1 + [each.strategy.digest for each in trials].index(verdict["winner"])
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
        **_given(found, str(verdict["baseline"])),
        "time": trials[0].time,
        "replicas": len(trials[0].strategy.replicas),
        "batch_size": trials[0].model.batch_size,
        "purposes": [each.purpose for each in trials],
        "measured_seconds": [each.median_seconds for each in trials],
        "hits": [each.hit for each in found.points],
    }


def _over_default(verdict: Row) -> Row:
    """How many times as fast the winner is as the fastest of frameworks' defaults, where one was timed with it."""
    found = verdict.get("over_default")
    low, high = (found["speedup_interval"] or (math.nan, math.nan)) if found else (None, None)
    return {
        "over_default": found["speedup"] if found else None,
        "over_default_low": low,
        "over_default_high": high,
    }


def _given(found: Findings, baseline: str) -> Row:
    """How many times as fast as the best baseline the best of what the search was given is, paired by turns of the
    finals; None where nothing was given, or nothing of it came to its end.
    """
    measured = [each for each in found.contenders if each.remeasured]  # fastest first
    given = [each for each in measured if each.label == GIVEN]
    usual = next(each for each in measured if each.digest == baseline)
    shared = sorted(usual.turns.keys() & given[0].turns.keys()) if given else []
    if not shared:
        return dict.fromkeys(("given_speedup", "given_speedup_low", "given_speedup_high"))
    logs = log_ratios([usual.turns[turn] for turn in shared], [given[0].turns[turn] for turn in shared])
    low, high = interval_of(logs, ERROR / len(given)) or (math.nan, math.nan)
    return {"given_speedup": speedup_of(logs), "given_speedup_low": low, "given_speedup_high": high}


def _median_baseline(strategies: Sequence[Row]) -> float:
    """Median step seconds of the baselines, of which those that failed count as the slowest."""
    seconds = [each["median_seconds"] for each in strategies if each["purpose"] == "baseline"]
    return statistics.median_high([math.inf if each is None else each for each in seconds])

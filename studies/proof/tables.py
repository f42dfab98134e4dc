"""The tables of the proof."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from autosync.stats.cells import CellName
from autosync.stats.estimate import geometric_mean, median_of
from autosync.stats.tables import NOTHING, TextTable, percent, tenths
from studies.bench.contenders import OURS
from studies.bench.words import in_times, in_trials
from studies.proof.cells import CLUSTERS, MODELS
from studies.proof.finals import BASELINE_ROLE, DEFAULT_ROLE
from studies.proof.methods import ALL_REDUCE, DDP, METHODS, TRIALS
from studies.proof.outcomes import (
    COMPARED,
    RIVALS,
    JobOutcome,
    Row,
    median_over_seeds,
    outcomes_of,
    over_seeds,
)

Cells = Mapping[CellName, Sequence[JobOutcome]]

ALL_CELLS = tuple(CellName(model, cluster) for cluster in CLUSTERS for model in MODELS)
NOT_RUN = "not run yet"


def gains_table(cells: Cells) -> TextTable:
    """Return the table of guided search's gains, with every cell of the proof."""
    header = ("cluster", "model", "seeds", *COMPARED, "room", "gap closed")
    return TextTable(
        "gains",
        "Gains of guided search",
        f"The step time of a rival over that of the best strategy of {TRIALS} trials of guided search, both timed "
        "again in the same rounds: with the interval of the rounds for one seed, and as a geometric mean with "
        "Student's interval for several. *room*: the best baseline's step over the lower bound, without a barrier if "
        "the engine can leave it out. *gap closed*: the closed share of the gap between the best baseline and that "
        "bound. Both are medians over seeds.",
        header,
        [
            (
                cell.cluster,
                cell.model,
                *(_gains(cells[cell]) if cell in cells else (NOT_RUN, *[""] * (len(header) - 3))),
            )
            for cell in ALL_CELLS
        ],
    )


def steps_table(cells: Cells) -> TextTable:
    """Return the table of step times in the finals."""
    return TextTable(
        "steps",
        "Steps",
        "Milliseconds of a step in the finals (median over rounds, then over seeds), the best baseline's name in the "
        "first seed, and the bounds with a barrier and without.",
        (
            "cluster",
            "model",
            "DDP",
            "DDP by hand",
            "best baseline",
            "its name",
            "all-reduce by hand",
            "best rival",
            OURS,
            "bound with barrier",
            "without",
        ),
        [
            (
                cell.cluster,
                cell.model,
                _ms(jobs, DEFAULT_ROLE),
                _ms(jobs, DDP),
                _ms(jobs, BASELINE_ROLE),
                _label(jobs[0], BASELINE_ROLE),
                _ms(jobs, ALL_REDUCE),
                _ms(jobs, *RIVALS),
                _ms(jobs, OURS),
                tenths(1e3 * median_over_seeds(job.finals[0]["bound_with_barrier_seconds"] for job in jobs)),
                tenths(1e3 * median_over_seeds(job.bound_seconds for job in jobs)),
            )
            for cell, jobs in cells.items()
        ],
    )


def trials_table(cells: Cells) -> TextTable:
    """Return the table of trials to within 5 % of the best, cell by cell, and of rank accuracy."""
    return TextTable(
        "trials",
        "Trials to within 5 %, and rank accuracy in the loop",
        f"Trials until one is within 5 % of the best trial of all methods (median over seeds; >{TRIALS}: never). "
        "*rank accuracy*: the share of pairs of guided search's own proposals that its predictions put in order.",
        ("cluster", "model", *METHODS, "rank accuracy"),
        [
            (
                cell.cluster,
                cell.model,
                *(_trials(jobs, method) for method in METHODS),
                percent(median_over_seeds(job.rank_accuracy for job in jobs)),
            )
            for cell, jobs in cells.items()
        ],
    )


def training_table(outcomes: Sequence[JobOutcome], training: Iterable[Row]) -> TextTable:
    """Return the table that compares gains in training with gains in the finals."""
    finals = {outcome.key: outcome for outcome in outcomes}
    compared = {"over DDP": DEFAULT_ROLE, "over the best baseline": BASELINE_ROLE}
    rows = []
    for outcome in outcomes_of(training, []):
        pair = (outcome, finals[outcome.key])
        gains = [in_times(part.speedup(role)) for role in compared.values() for part in pair]
        late = max(row["late_seconds"] for row in outcome.finals)
        losses = [row["losses"][-1] for row in outcome.finals]
        rows.append(
            (
                *(outcome.cell.cluster, outcome.cell.model),
                *(_ms([outcome], role) for role in (*compared.values(), OURS)),
                *gains,
                *(tenths(1e3 * late), f"{max(losses) - min(losses):.1g}"),
            )
        )
    return TextTable(
        "training",
        "In real training",
        "`torchrun` on all nodes: plain loops with `DistributedDataParallel` or `autosync.torch.distribute` train the "
        "same model on the same batches, in turns. Passes are computed, and gradients are held until their times on "
        "the paced nodes. Milliseconds of a step (median over rounds); speed-ups with the interval of the rounds, in "
        "training and in the finals. *late*: milliseconds by which the latest gradient of a step misses its time, on "
        "average, under the worst strategy. *losses differ by*: the largest difference of the final losses.",
        (
            *("cluster", "model", "DDP", "best baseline", OURS),
            *(title + part for title in compared for part in ("", ", in the finals")),
            *("late", "losses differ by"),
        ),
        rows,
    )


def methods_table(outcomes: Sequence[JobOutcome]) -> TextTable:
    """Return the table that compares the methods over all jobs."""
    return TextTable(
        "methods",
        "Methods",
        "Over all jobs that have run: median trials to within 5 % of the best trial of all methods; geometric mean of "
        "the speed-up of the method's strategy over the best baseline and over DDP's default, in the finals; seconds "
        "of a method's trials and of the method itself (medians).",
        ("method", "jobs", "trials to 5 %", "over the best baseline", "over DDP", "trials, s", "itself, s"),
        [
            (
                method,
                str(len(jobs)),
                in_trials(median_of([job.trials_to_best(method) for job in jobs]), TRIALS),
                _mean_gain(jobs, method, BASELINE_ROLE),
                _mean_gain(jobs, method, DEFAULT_ROLE),
                f"{statistics.median(job.methods[method]['trial_seconds'] for job in jobs):.0f}",
                f"{statistics.median(job.methods[method]['thinking_seconds'] for job in jobs):.0f}",
            )
            for method in METHODS
            if (jobs := [job for job in outcomes if method in job.methods])
        ],
    )


def _gains(jobs: Sequence[JobOutcome]) -> tuple[str, ...]:
    return (
        str(len(jobs)),
        *(in_times(over_seeds(jobs, roles)) for roles in COMPARED.values()),
        f"{median_over_seeds(job.room(BASELINE_ROLE) for job in jobs):.2f}",
        _share(median_over_seeds(job.gap_closed for job in jobs)),
    )


def _mean_gain(jobs: Sequence[JobOutcome], method: str, role: str) -> str:
    ratios = [job.seconds(role) / job.seconds(method) for job in jobs]
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    if not known:
        return NOTHING
    return in_times(geometric_mean(known)) if len(known) > 1 else f"{known[0]:.2f}"


def _ms(jobs: Sequence[JobOutcome], *roles: str) -> str:
    seconds = median_over_seeds(job.seconds(*roles) for job in jobs)
    return NOTHING if math.isnan(seconds) else tenths(1e3 * seconds)


def _label(job: JobOutcome, role: str) -> str:
    row = job.finalist(role)
    return NOTHING if row is None else str(row["label"])


def _trials(jobs: Sequence[JobOutcome], method: str) -> str:
    trials = statistics.median(job.trials_to_best(method) for job in jobs)
    return f"{trials:g}" if math.isfinite(trials) else f">{TRIALS}"


def _share(share: float) -> str:
    return NOTHING if math.isnan(share) else f"{share:.0%}"

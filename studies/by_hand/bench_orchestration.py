"""The overhead of a search beyond the timed steps, computed from the records of a finished run.

    python -m studies.by_hand.bench_orchestration --data data [--run NAME]

A trial's seconds are split into seconds inside steps (warm-up and timed, at the trial's mean) and the rest: proposing,
Ray Tune, placing, tracing and building the step. The gap between two trials counts as part of the first one.
"""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import click

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord, median_interval


def split(record: RuntimeRecord, next_start: float) -> tuple[float, float, float]:
    """Return the seconds of a trial outside its steps: in total, for building the step, and before the next trial."""
    steps = record.protocol.warmup_steps + len(record.step_seconds)
    wall = next_start - record.started_at
    inside = steps * (record.mean_seconds or 0.0)
    return wall - inside, record.setup_seconds, wall - record.total_seconds


@click.command()
@click.option("--data", type=Path, required=True, help="Directory of records.")
@click.option("--run", help="Name of the run in the records.  [default: the last one]")
def main(data: Path, run: str | None) -> None:
    """Print the overhead per trial, as medians with 95 % intervals."""
    records = [record for record in RecordStore(data).read() if record.purpose in ("baseline", "search")]
    name = run or max(records, key=lambda record: record.started_at).run
    trials = sorted((record for record in records if record.run == name), key=lambda record: record.started_at)
    parts = [split(trial, following.started_at) for trial, following in pairwise(trials) if trial.timed]
    print(f"{name}: {trials[0].model.name}, {len(parts)} trials that another trial follows")
    titles = ("outside steps", "building the step (with its first run)", "between trials")
    for title, seconds in zip(titles, zip(*parts, strict=True), strict=True):
        low, high = median_interval(seconds)
        print(
            f"  {title:<40} median {statistics.median(seconds):.3f} s  95 % {low:.3f} - {high:.3f}  "
            f"mean {statistics.fmean(seconds):.3f}"
        )


if __name__ == "__main__":
    main()

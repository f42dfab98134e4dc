"""Divides the seconds of a search into steps and overhead: `python studies/by_hand/bench_overhead.py RUN --data DATA`.

A trial's first step counts as one of its steps, and a warm-up step counts with the median of the timed steps. The
remainder is overhead: *between* the end of a trial and the start of the next (records, the searcher, Ray Tune, calls
between processes), *building* the step, and *closing* it. All figures come from the run's records and from the times of
its files, so runs of older versions can be compared, too.
"""

import argparse
import statistics
from pathlib import Path

from autosync.dataset import RecordStore, records_folder
from autosync.runs.documents import run_document
from autosync.spec import RuntimeRecord

COLUMNS = ("between", "building", "closing", "overhead", "steps")


def seconds_of_parts(record: RuntimeRecord, before: RuntimeRecord | None) -> dict[str, float]:
    """Seconds of the trial by part; `before` is the trial before it."""
    median = record.median_seconds or 0.0
    timed, warmups = sum(record.step_seconds), record.protocol.warmup_steps
    if len(record.step_seconds) < record.protocol.check_after:
        warmups = 1  # stopped in its warm-up, whose other steps count as timed
    seconds = {
        "between": record.started_at - before.started_at - before.total_seconds if before else 0.0,
        "building": record.setup_seconds - median,
        "closing": record.total_seconds - record.setup_seconds - timed - warmups * median,
        "steps": timed + (warmups + 1) * median,
    }
    return seconds | {"overhead": seconds["between"] + seconds["building"] + seconds["closing"]}


def show(title: str, records: list[RuntimeRecord]) -> None:
    """Print a line for each of `records`, and their medians."""
    pairs = zip(records, [None, *records], strict=False)
    rows = [(record, seconds_of_parts(record, before)) for record, before in pairs if record.timed]
    if not rows:
        return
    print(f"\n{title:24} {'outcome':9}" + "".join(f"{name:>10}" for name in COLUMNS))
    for record, seconds in rows:
        print(f"{record.label[:24]:24} {record.outcome:9}" + "".join(f"{seconds[name]:10.3f}" for name in COLUMNS))
    medians = [statistics.median(seconds[name] for _, seconds in rows[1:] or rows) for name in COLUMNS]
    print(f"{'median, without the first':34}" + "".join(f"{value:10.3f}" for value in medians))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"))
    options = parser.parse_args()
    records = RecordStore(records_folder(options.data) or options.data).read(run=run_document(options.run)["name"])
    searched = [record for record in records if record.purpose != "remeasure"]
    finals = [record for record in records if record.purpose == "remeasure"]
    show("trials of the search", searched)
    show("turns of the finals", finals)
    begun, ended = searched[0].started_at, searched[-1].started_at + searched[-1].total_seconds
    times = [(options.run / name, name) for name in ("probe.json", "run.json", "result.json", "report.html")]
    print("\nSeconds from the start of the first trial:")
    for path, name in times:
        if path.exists():
            print(f"  {path.stat().st_mtime - begun:8.1f}  {name} was written")
    print(f"  {ended - begun:8.1f}  the last trial of the search ended")
    if finals:
        print(f"  {finals[-1].started_at + finals[-1].total_seconds - begun:8.1f}  the finals ended")


if __name__ == "__main__":
    main()

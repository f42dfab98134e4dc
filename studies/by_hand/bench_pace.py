"""Checks that paced nodes keep their pace: four measurements, one command each.

    python -m studies.by_hand.bench_pace alone
    python -m studies.by_hand.bench_pace itself --out runtimes/bench/pace
    python -m studies.by_hand.bench_pace shows --models bert-mini --rounds 12 --quick
    python -m studies.by_hand.bench_pace show runtimes/bench/pace/alone.json

Run them on Linux with `iproute2`, as root or as an ordinary user, on a machine without other work. A command prints a
line with host and date, and tables in Markdown. All timings are in OUT/NAME.json, which is complete after every turn:
after an interruption the same command resumes, and if the file is complete, the command only prints the tables. Figures
are medians over rounds with their 95 % interval, or their range with under six rounds. `--quick` is a short test run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from autosync.errors import AutosyncError
from studies.by_hand.pacing import alone, itself, shows, virtual
from studies.by_hand.pacing.pace_results import PaceResults
from trials.emulate import begin_as_root

BENCHMARKS: dict[str, ModuleType] = {"alone": alone, "itself": itself, "shows": shows}
if virtual.is_available():
    BENCHMARKS["virtual"] = virtual

CLUSTER = "bench-pace"


@click.group(help=__doc__)
def main() -> None: ...


def _command(name: str, benchmark: ModuleType) -> Callable[..., None]:
    @main.command(name, help=(benchmark.__doc__ or "").split("\n\n")[0])
    @click.option("--cluster", help="A star such as 4x200mbit, or a cluster file.")
    @click.option("--models", help="Models, separated by commas.")
    @click.option("--rounds", type=click.IntRange(1))
    @click.option("--steps", type=click.IntRange(1), help="Steps of each turn.")
    @click.option("--quick", is_flag=True, help="A short test run with few rounds and steps.")
    @click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="runs/bench/pace")
    @click.option("--cluster-name", default=CLUSTER, hidden=True)
    def command(out: Path, quick: bool, cluster_name: str, models: str | None, **options: Any) -> None:
        asked = benchmark.ASKED | (benchmark.QUICK if quick else {})
        asked |= {option: value for option, value in options.items() if value is not None}
        if models:
            asked["models"] = models.split(",")
        try:
            kept = PaceResults(out / f"{name}.json", name, asked)
            if not kept.complete:
                begin_as_root(cluster_name)
                kept.sit()
                benchmark.measure(kept, cluster_name)
                kept.end()
        except AutosyncError as error:
            raise click.ClickException(str(error)) from None
        except KeyboardInterrupt:
            print("Interrupted. The timings are kept; run the same command to resume.", file=sys.stderr)
            raise SystemExit(130) from None
        print_tables(kept, benchmark)

    return command


for _name, _benchmark in BENCHMARKS.items():
    _command(_name, _benchmark)


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
def show(file: Path) -> None:
    """Print the tables of FILE, the results of one of these benchmarks."""
    kept = PaceResults.read(file)
    print_tables(kept, BENCHMARKS[kept.benchmark])


def print_tables(kept: PaceResults, benchmark: ModuleType) -> None:
    """Print a line with host and date, and the tables."""
    print(kept.head())
    for block in benchmark.tables(kept):
        print(f"\n{block}")


if __name__ == "__main__":
    main()

"""Are paced nodes what they are said to be? Four measurements, each one command.

    python -m tests.by_hand.bench_pace alone
    python -m tests.by_hand.bench_pace itself --out runtimes/bench/pace
    python -m tests.by_hand.bench_pace shows --models bert-mini --rounds 12 --quick
    python -m tests.by_hand.bench_pace show runtimes/bench/pace/alone.json

On Linux with `iproute2`, as root or as an ordinary user, on a machine that does nothing else. Each prints a line on
where and when it was, and tables in markdown; all that was timed is in OUT/NAME.json, which is whole after every turn:
the same command goes on after an interruption, and of a file that is complete prints the tables alone. Figures are
medians over rounds with their 95 % interval, or their range with under six rounds. `--quick` shows that it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from autosync.errors import AutosyncError
from tests.by_hand.pacing import alone, itself, shows, virtual
from tests.by_hand.pacing.kept import Kept
from trials.emulate import begin_as_root

BENCHMARKS: dict[str, ModuleType] = {"alone": alone, "itself": itself, "shows": shows}
if virtual.is_there():
    BENCHMARKS["virtual"] = virtual

CLUSTER = "bench-pace"


@click.group(help=__doc__)
def main() -> None: ...


def _command(name: str, benchmark: ModuleType) -> Callable[..., None]:
    @main.command(name, help=(benchmark.__doc__ or "").split("\n\n")[0])
    @click.option("--cluster", help="A star such as 4x200mbit, or a cluster file.")
    @click.option("--models", help="By commas.")
    @click.option("--rounds", type=click.IntRange(1))
    @click.option("--steps", type=click.IntRange(1), help="Steps of each turn.")
    @click.option("--quick", is_flag=True, help="The least of everything, to see that it runs.")
    @click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="runs/bench/pace")
    @click.option("--cluster-name", default=CLUSTER, hidden=True)
    def command(out: Path, quick: bool, cluster_name: str, models: str | None, **given: Any) -> None:
        asked = benchmark.ASKED | (benchmark.QUICK if quick else {})
        asked |= {option: value for option, value in given.items() if value is not None}
        if models:
            asked["models"] = models.split(",")
        try:
            kept = Kept(out / f"{name}.json", name, asked)
            if not kept.complete:
                begin_as_root(cluster_name)
                kept.sit()
                benchmark.measure(kept, cluster_name)
                kept.end()
        except AutosyncError as error:
            raise click.ClickException(str(error)) from None
        except KeyboardInterrupt:
            print("Interrupted; what was timed is kept, and the same command goes on.", file=sys.stderr)
            raise SystemExit(130) from None
        print_tables(kept, benchmark)

    return command


for _name, _benchmark in BENCHMARKS.items():
    _command(_name, _benchmark)


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path))
def show(file: Path) -> None:
    """Print what FILE, of one of these benchmarks, holds so far."""
    kept = Kept.read(file)
    print_tables(kept, BENCHMARKS[kept.benchmark])


def print_tables(kept: Kept, benchmark: ModuleType) -> None:
    """Print where and when it was, and the tables."""
    print(kept.head())
    for block in benchmark.tables(kept):
        print(f"\n{block}")


if __name__ == "__main__":
    main()

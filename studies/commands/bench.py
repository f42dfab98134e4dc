"""The command `python -m studies bench`."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import GOES_ON, NOT_DONE, SETTINGS, names_in, run_command
from autosync.commands.values import PLACE
from autosync.search.registry import SEARCHERS
from autosync.spec.address import Place
from autosync.terminal import emit, say
from studies.commands import proof

CELLS = tuple(
    f"{model}@{cluster}"
    for cluster in ("topologies/uniform_200mbit.yaml", "topologies/one_slow_node.yaml", "topologies/two_racks.yaml")
    for model in ("bert-mini", "vgg-mini", "ncf-mini")
)
CONTROLS = ("resnet-mini@2x10gbit", "vgg-mini@2x10gbit")
"""Small dense models on links faster than the machine, where the choice of strategy hardly matters."""


@click.group("bench", context_settings=SETTINGS)
def command() -> None:
    """Benchmark the search. You can stop a benchmark at any moment; the same command resumes it.

    Results are kept as Parquet in --out; `tables` writes the page, its tables and its pictures from them.
    """


OUT = click.option("--out", type=Path, default=Path("runs/bench"), help="Folder of all results.")


def _add_options(*options: Any) -> Any:
    """Return a decorator that adds all `options` to a command, in this order."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _replay_options(searchers: Sequence[str], seeds: int) -> Any:
    """Return a decorator with the options of the commands that replay."""
    return _add_options(
        click.option("--data", type=PLACE, default=Path("runtimes/older"), help="Folder of the records."),
        OUT,
        click.option("--searchers", default=",".join(searchers), help="Searchers, separated by commas."),
        click.option("--cells", default="", help="Cells as MODEL@CLUSTER, separated by commas.  [default: all]"),
        click.option(
            "--seeds",
            type=click.IntRange(1),
            default=seeds,
            help="Searches per searcher and cell, rounded up to a multiple of five.",
        ),
        click.option("--trials", type=click.IntRange(1), default=60, help="Trials of each search."),
        click.option(
            "--baselines/--no-baselines", default=True, help="Whether the searcher gets the baselines to start with."
        ),
        click.option(
            "--drawn",
            is_flag=True,
            help="Draw noise-free step times for each seed, and noise for each trial.",
        ),
        click.option("--processes", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes in parallel."),
    )


@command.command()
@_replay_options((*SEARCHERS, "ideal"), seeds=20)
def replay(searchers: str, cells: str, **options: Any) -> None:
    """Search recorded trials, on a clock that adds up their recorded lengths: any searcher, any cell, many seeds."""
    _replay(searchers, cells, options)


@command.command()
@_replay_options((), seeds=5)
def ablations(searchers: str, cells: str, **options: Any) -> None:
    """Replay guided searches that lack one part each."""
    from studies.bench.contenders import ABLATIONS

    names = dict.fromkeys(name for pair in ABLATIONS for name in (pair.whole, pair.less))
    _replay(searchers or ",".join(names), cells, options)


def _live_options(cells: Sequence[str]) -> Any:
    """Return a decorator with the options of the commands that search live clusters."""
    return _add_options(
        click.option(
            "--data",
            type=Path,
            default=Path("runtimes"),
            help="Folder of records; the simulator is pretrained on those of other models on other clusters.",
        ),
        OUT,
        click.option("--cells", default=",".join(cells), help="Cells as MODEL@CLUSTER; clusters as in --emulate."),
        click.option("--seeds", type=click.IntRange(1), default=3, help="Searches per cell."),
        click.option("--trials", type=click.IntRange(1), default=60, help="Trials of each search, without finals."),
        click.option("--searcher", default="guided", help=f"One of {', '.join(SEARCHERS)}."),
        click.option(
            "--without-rule",
            "without_rules",
            multiple=True,
            help="A rule of the search space to switch off, or '' for none; repeatable, and searches alternate.",
        ),
        click.option(
            "--profile", type=Path, help="JSON file with the model's profile on another device, for paced passes."
        ),
        click.argument("more", nargs=-1, type=click.UNPROCESSED),
    )


@command.command()
@_live_options(CELLS)
def live(**options: Any) -> int:
    """Search clusters emulated on this machine, with autosync tune. Needs Linux. Options after -- go to autosync
    tune."""
    return _live(control=False, **options)


@command.command()
@_live_options(CONTROLS)
def controls(**options: Any) -> int:
    """Search cells where no gain is possible; the expected result is that no gain is found."""
    return _live(control=True, **options)


@command.command()
@OUT
def cost(out: Path) -> None:
    """Print the table of search costs compared with the training that the searches speed up, from the kept results."""
    from studies.bench.report import Material

    emit(Material.read(out).costs().markdown())


@command.command()
@OUT
def tables(out: Path) -> None:
    """Write the page with all tables and pictures, from the kept results."""
    from studies.bench.report import write_report

    say(f"The tables and pictures: {write_report(out)}")


@command.command()
@OUT
def merge(out: Path) -> None:
    """Merge the results of each kind into one file, to ship them. No other command may run meanwhile."""
    from studies.bench.runs import merge

    merge(out, say)


@command.command()
@click.option("--out", type=Path, default=Path("runs/scale"), help="Folder of the results and of captured models.")
@click.option("--models", default="", help="Models, separated by commas.  [default: the seven of real size]")
@click.option("--clusters", default="", help="Clusters such as A, B or 256x1, separated by commas.  [default: all]")
@click.option("--trials", type=click.IntRange(4), default=40, help="Trials of each search.")
@click.option("--seed", type=int, default=0)
@click.option(
    "--profiles", type=Path, help="Folder of device profiles, such as runtimes/devices/h100, for passes on GPUs."
)
def scale(out: Path, models: str, clusters: str, trials: int, seed: int, profiles: Path | None) -> int:
    """Predict steps of real-size models on up to 1024 workers, for baselines and a search's best. Runs no training."""
    from studies.scale.cells import ScaleOrder, run
    from studies.scale.clusters import CLUSTERS, check_clusters
    from studies.scale.models import MODELS, check_models
    from studies.scale.report import write_report

    chosen = tuple(names_in(models)) or MODELS, tuple(names_in(clusters)) or tuple(CLUSTERS)
    check_models(chosen[0], profiles)
    check_clusters(chosen[1])
    failed = run(ScaleOrder(out, *chosen, trials, seed, profiles), say)
    say(f"The tables: {write_report(out)}")
    return NOT_DONE if failed else 0


@command.command()
@click.argument("names", nargs=-1)
@OUT
@click.option(
    "--seeds", type=click.IntRange(2), default=10, help="Seeds of each experiment; those that train use at most 5."
)
@click.option("--page-only", is_flag=True, help="Write the page from the kept results without measuring.")
def literature(names: Sequence[str], out: Path, seeds: int, page_only: bool) -> None:
    """Compare the systems of the literature: run the experiments NAMES, or all, and write a page of the results.

    Time is virtual, so no experiment waits. The exceptions are *links* and *paced*, which make emulated clusters and
    need the machine for themselves.
    """
    from studies.literature.job import EXPERIMENTS, rows_of, run, select
    from studies.literature.page import claim_lines, write_page

    experiments = select(names)
    if not page_only:
        run(experiments, seeds, out, say)
    for experiment in experiments:
        say(experiment.title)
        for line in claim_lines(experiment, rows_of(experiment, out)):
            say(line)
    say(f"The page: {write_page(tuple(EXPERIMENTS.values()), out)}")


def _replay(searchers: str, cells: str, options: dict[str, Any]) -> None:
    from studies.bench.runs import ReplayOrder, replay

    replay(ReplayOrder(searchers=names_in(searchers), cells=names_in(cells), **options), say)


def _live(data: Place, out: Path, cells: str, **options: Any) -> int:
    from studies.bench.live import jobs_of
    from studies.bench.runs import live

    return 0 if live(jobs_of(names_in(cells), **options), data, out, say) else NOT_DONE


command.add_command(proof.command)

main = partial(run_command, command, interrupted=GOES_ON, program="python -m studies bench")

"""The command `autosync bench`."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import GOES_ON, NOT_DONE, PLACE, SETTINGS, names_in, run_command
from autosync.search.registry import SEARCHERS
from autosync.spec.address import Place
from autosync.terminal import emit, say

CELLS = tuple(
    f"{model}@{cluster}"
    for cluster in ("topologies/uniform_200mbit.yaml", "topologies/one_slow_node.yaml", "topologies/two_racks.yaml")
    for model in ("bert-mini", "vgg-mini", "ncf-mini")
)
CONTROLS = ("resnet-mini@2x10gbit", "vgg-mini@2x10gbit")
"""Small dense models on links that are faster than the machine: what there is to choose hardly matters."""


@click.group("bench", context_settings=SETTINGS)
def command() -> None:
    """Benchmarks of the search. Each may be stopped at any moment; the same command goes on.

    Results are kept as Parquet in --out; `tables` makes the page, its tables and its pictures from them.
    """


OUT = click.option("--out", type=Path, default=Path("runs/bench"), help="Folder of all results.")


def _all(*options: Any) -> Any:
    """What gives a command all `options`, in this order."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _replaying(searchers: Sequence[str], seeds: int) -> Any:
    """The options of the commands that replay."""
    return _all(
        click.option("--data", type=PLACE, default=Path("runtimes/older"), help="Folder of the records."),
        OUT,
        click.option("--searchers", default=",".join(searchers), help="With commas between."),
        click.option("--cells", default="", help="MODEL@CLUSTER, with commas between.  [default: all]"),
        click.option("--seeds", type=click.IntRange(1), default=seeds, help="Searches each; in fives."),
        click.option("--trials", type=click.IntRange(1), default=60, help="Budget of each search."),
        click.option(
            "--baselines/--no-baselines", default=True, help="Baselines given to the searcher, or not at all."
        ),
        click.option(
            "--drawn",
            is_flag=True,
            help="Draw for each seed what strategies take without noise, and noise for each trial.",
        ),
        click.option("--processes", type=click.IntRange(1), default=os.cpu_count() or 1, help="Side by side."),
    )


@command.command()
@_replaying((*SEARCHERS, "ideal"), seeds=20)
def replay(searchers: str, cells: str, **given: Any) -> None:
    """Search recorded trials, with a clock that goes by their lengths: any searcher, any cell, many seeds."""
    _replay(searchers, cells, given)


@command.command()
@_replaying((), seeds=5)
def ablations(searchers: str, cells: str, **given: Any) -> None:
    """The same with guided searches that lack a part."""
    from autosync.studies.bench.contenders import ABLATIONS

    names = dict.fromkeys(name for each in ABLATIONS for name in (each.whole, each.less))
    _replay(searchers or ",".join(names), cells, given)


def _searching(cells: Sequence[str]) -> Any:
    """The options of the commands that search live clusters."""
    return _all(
        click.option(
            "--data",
            type=Path,
            default=Path("runtimes"),
            help="Folder of records; those of other models on other clusters teach the simulator.",
        ),
        OUT,
        click.option("--cells", default=",".join(cells), help="MODEL@CLUSTER, as --emulate takes clusters."),
        click.option("--seeds", type=click.IntRange(1), default=3, help="Searches each."),
        click.option("--trials", type=click.IntRange(1), default=60, help="Of each search, finals not counted."),
        click.option("--searcher", default="guided", help=f"One of {', '.join(SEARCHERS)}."),
        click.option(
            "--without-rule",
            "without_rules",
            multiple=True,
            help="A rule of the search space to switch off, or '' for none; repeatable, searches take turns.",
        ),
        click.option(
            "--profile", type=Path, help="What paced passes follow: the model on another device, a JSON file."
        ),
        click.argument("more", nargs=-1, type=click.UNPROCESSED),
    )


@command.command()
@_searching(CELLS)
def live(**given: Any) -> int:
    """Search clusters emulated here, with autosync tune. Needs Linux. What follows -- is given to it."""
    return _live(control=False, **given)


@command.command()
@_searching(CONTROLS)
def controls(**given: Any) -> int:
    """The same on cells where there is nothing to gain; the expected answer is that nothing was gained."""
    return _live(control=True, **given)


@command.command()
@OUT
def cost(out: Path) -> None:
    """What searches cost, beside the training they speed up: the table alone, from the results there are."""
    from autosync.studies.bench.report import Material

    emit(Material.read(out).costs().markdown())


@command.command()
@OUT
def tables(out: Path) -> None:
    """Write the page with all tables and pictures, from the results there are."""
    from autosync.studies.bench.report import write_report

    say(f"The tables and pictures: {write_report(out)}")


@command.command()
@OUT
def merge(out: Path) -> None:
    """Put the results of all replays into one file, and of all live searches, to ship them; nothing else may run."""
    from autosync.studies.bench.orders import merge

    merge(out, say)


@command.command()
@click.option("--out", type=Path, default=Path("runs/scale"), help="Folder of the results, and of captured models.")
@click.option("--models", default="", help="With commas between.  [default: the seven real-size ones]")
@click.option("--clusters", default="", help="Such as A, B or 256x1, with commas between.  [default: all]")
@click.option("--trials", type=click.IntRange(4), default=40, help="Budget of each search.")
@click.option("--seed", type=int, default=0)
@click.option(
    "--profiles", type=Path, help="Folder of device profiles, such as runtimes/devices/h100, for passes on GPUs."
)
def scale(out: Path, models: str, clusters: str, trials: int, seed: int, profiles: Path | None) -> int:
    """Predict real-size models on up to 1024 workers: baselines, and the best found by a search. Runs nothing."""
    from autosync.studies.scale.cells import Order, run
    from autosync.studies.scale.clusters import CLUSTERS, check_clusters
    from autosync.studies.scale.models import MODELS, check_models
    from autosync.studies.scale.report import write_report

    chosen = tuple(names_in(models)) or MODELS, tuple(names_in(clusters)) or tuple(CLUSTERS)
    check_models(chosen[0], profiles)
    check_clusters(chosen[1])
    failed = run(Order(out, *chosen, trials, seed, profiles), say)
    say(f"The tables: {write_report(out)}")
    return NOT_DONE if failed else 0


@command.command()
@click.argument("names", nargs=-1)
@OUT
@click.option(
    "--seeds", type=click.IntRange(2), default=10, help="Of each experiment; those that train take 5 at most."
)
@click.option("--page-only", is_flag=True, help="Make the page from what is kept, and measure nothing.")
def literature(names: Sequence[str], out: Path, seeds: int, page_only: bool) -> None:
    """The systems of the literature, side by side: the experiments NAMES, or all of them, and a page of what came out.

    Time is virtual: nothing is waited for. But *links* and *paced* make emulated clusters, and need the machine alone.
    """
    from autosync.studies.literature.job import EXPERIMENTS, chosen, rows_of, run
    from autosync.studies.literature.page import claim_lines, write_page

    experiments = chosen(names)
    if not page_only:
        run(experiments, seeds, out, say)
    for experiment in experiments:
        say(experiment.title)
        for line in claim_lines(experiment, rows_of(experiment, out)):
            say(line)
    say(f"The page: {write_page(tuple(EXPERIMENTS.values()), out)}")


def _replay(searchers: str, cells: str, given: dict[str, Any]) -> None:
    from autosync.studies.bench.orders import ReplayOrder, replay

    replay(ReplayOrder(searchers=names_in(searchers), cells=names_in(cells), **given), say)


def _live(data: Place, out: Path, cells: str, **given: Any) -> int:
    from autosync.studies.bench.live import jobs_of
    from autosync.studies.bench.orders import live

    return 0 if live(jobs_of(names_in(cells), **given), data, out, say) else NOT_DONE


main = partial(run_command, command, interrupted=GOES_ON)

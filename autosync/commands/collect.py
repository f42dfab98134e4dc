"""The command `autosync collect`."""

import math
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import NOT_DONE, SETTINGS, names_in, run_command
from autosync.terminal import say


@click.command("collect", context_settings=SETTINGS)
@click.option(
    "--plan", "plan_file", type=Path, default=Path("runtimes/plan.yaml"), help="Models, clusters and how many of each."
)
@click.option("--out", type=Path, help="Folder of the records and the card.  [default: the plan's]")
@click.option("--time-budget", type=click.FloatRange(0, min_open=True), help="Seconds after which no trial begins.")
@click.option(
    "--settle",
    "settle_seconds",
    type=click.FloatRange(0),
    default=300.0,
    help="Seconds a trial waits at most until other work on the machine has ended.",
)
@click.option("--only", default="", help="Models to collect, with commas between.  [default: all]")
@click.option("--cluster", default="", help="Clusters to collect on, with commas between.  [default: all]")
@click.option("--profile", type=Path, help="What paced passes follow: the model on another device, a JSON file.")
@click.option(
    "--card", is_flag=True, help="Collect nothing; write the figures of the records there are into README.md."
)
def command(plan_file: Path, out: Path | None, time_budget: float | None, card: bool, **given: Any) -> int:
    """Collect real runtimes on emulated clusters, for hours and unattended. Needs Linux.

    May be stopped at any moment, by Ctrl-C or kill -9; the same command goes on.
    """
    from autosync.studies.collect.folder import Folder  # SciPy
    from autosync.studies.collect.plan import check_models, chosen, cluster_of, read_plan

    folder = Folder(out or plan_file.parent)
    if card:
        from autosync.studies.collect.card import write_card  # pandas

        write_card(folder)
        say(f"The figures in {folder.card} are those of the records in {folder.records}.")
        return 0
    plan = read_plan(plan_file)
    check_models(plan)
    cells = chosen(plan, names_in(given["only"]), names_in(given["cluster"]))
    from autosync.studies.collect.rounds import Collection, Order  # pyarrow
    from trials.emulate.ordinary import begin_as_root
    from trials.opening import check_profile_of

    profile: Path | None = given["profile"]
    if profile is not None:
        clusters = [cluster_of(plan, plan_file, cell.cluster) for cell in cells]
        check_profile_of(profile, [cell.model for cell in cells], clusters, "--only")
    begin_as_root(folder.emulated_name)
    with folder.held():
        seconds = math.inf if time_budget is None else time_budget
        order = Order(plan_file, plan, tuple(cells), folder, seconds, given["settle_seconds"], profile)
        collection = Collection(order, say)
        say(f"{collection.progress.left} of {collection.progress.total} trials are left in {len(cells)} cells.")
        finished = False
        try:
            finished = collection.run()
        finally:
            say("\n".join(["", *collection.progress.summary()]))
            if not finished:
                say(f"Go on with: autosync collect {shlex.join(sys.argv[1:])}")
    return 0 if finished or collection.time_is_over else NOT_DONE


main = partial(run_command, command)
